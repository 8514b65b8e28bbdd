"""How much of a full pipeline fewer microbatches than stages keep busy."""

from labbook.labs import solution

lab04 = solution("lab-04")
busy = {
    (p, m): lab04.decode_steps_per_s(p, m, 1.0, 0.0) / lab04.decode_steps_per_s(p, p, 1.0, 0.0)
    for p in range(2, 9)
    for m in range(1, p + 1)
}
