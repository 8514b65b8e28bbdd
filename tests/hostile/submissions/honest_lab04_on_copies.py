"""Uses up lists, but copies of them.

lab: lab-04
base: solution
expect: 100
"""

_makespan, _replay, _audit, _peak = makespan_s, replay, audit_order, peak_live_activations


_bubble = grid_bubble


def grid_bubble(grid):
    _bubble(grid)  # for the errors
    cells, idle = len(grid) * len(grid[0]), 0
    for row in grid:
        row = row[:]
        while None in row:
            row.remove(None)
            idle += 1
    return Fraction(idle, cells)


def makespan_s(stage_s, m, hop_s=0):
    seconds = _makespan(stage_s, m, hop_s)
    sorted(stage_s).pop()
    return seconds


def used_up(function):
    def on_copies(order, *args):
        copies = [list(ops) for ops in order] if isinstance(order, list) else order
        result = function(copies, *args)
        for ops in copies:
            ops.clear()
        return result

    return on_copies


replay, audit_order, peak_live_activations = map(used_up, (_replay, _audit, _peak))
