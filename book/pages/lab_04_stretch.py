"""Three orders of training on four ranks: their bubbles and what they hold."""

from labbook.labs import solution

lab04 = solution("lab-04")
grids = {
    "GPipe": lab04.gpipe_order(4, 8),
    "1F1B": lab04.one_f_one_b_order(4, 8),
    "interleaved, two chunks": lab04.interleaved_order(4, 8, 2),
}
bubbles = {name: lab04.grid_bubble(lab04.replay(order)) for name, order in grids.items()}
held = {name: max(lab04.peak_live_activations(order)) for name, order in grids.items()}
crossings = dict(zip(grids, (3, 3, 7), strict=True))
rows = [[name, bubbles[name], held[name], crossings[name]] for name in grids]
rows[2][2] = f"{rows[2][2]}, half as large"
thirds = [bubbles[n] for n in ("GPipe", "1F1B", "interleaved, two chunks")]
as_answered = thirds == [lab04.Fraction(3, n) for n in (11, 11, 19)] and [*held.values()] == [
    8,
    4,
    11,
]
