"""Right results, but the lists it was given are sorted, emptied or shortened.

lab: lab-04
base: solution
expect: below 100, above 50
loses: test_makespan_s__*, test_grid_bubble__*, test_replay__starts_*
keeps: test_bubble_fraction__*, test_audit_order__*
says: argument stage_s
"""

_makespan, _replay = makespan_s, replay


def grid_bubble(grid):
    require(grid=grid)
    cells, idle = len(grid) * len(grid[0]), 0
    for row in grid:
        while None in row:
            row.remove(None)
            idle += 1
    return Fraction(idle, cells)


def makespan_s(stage_s, m, hop_s=0):
    seconds = _makespan(stage_s, m, hop_s)
    if type(stage_s) is list:
        stage_s.sort()
    return seconds


def replay(order, forward_ticks=1, backward_ticks=2):
    grid = _replay(order, forward_ticks, backward_ticks)
    for ops in order:
        while ops:
            ops.pop(0)
    return grid
