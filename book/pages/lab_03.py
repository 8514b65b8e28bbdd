"""A message on NVLink 4 and on 10 GbE."""

import sys

import figures
from labbook.amounts import human_bytes, microseconds
from labbook.labs import fact, lab, solution

lab03 = solution("lab-03")
link, tcp = lab03.LINKS["NVLink 4"], lab03.LINKS["10 GbE"]
c_s, a_s, busbw = figures.cost.middle("NVLink 4")
tcp_c, tcp_a, tcp_busbw = figures.cost.middle("10 GbE")
messages, decode = figures.cost.messages_of()
_, prefill = figures.cost.messages_of(4096)


def span(name, scale, unit):
    """A row of the table of constants: NVLink 4 and 10 GbE, lowest to highest."""
    return " | ".join(
        f"{r[name][0] / scale:g} to {r[name][1] / scale:g} {unit}" for r in (link, tcp)
    )


sys.path.append(str(lab("lab-03").path))  # the program imports its neighbours by name
import calibration_table  # noqa: E402

rows = calibration_table.read_measurements()
others = calibration_table.other_box(lab03, rows, calibration_table.all_reduces(rows))
off = [said / seconds - 1 for _, seconds, said in others]
elsewhere = [
    [human_bytes(size), microseconds(seconds), microseconds(said), f"{part:+.1%}"]
    for (size, seconds, said), part in zip(others, off, strict=True)
]
within_an_eighth = all(abs(part) < 0.125 for part in off)
fit = figures.cost.h100_constants()
at_line, empty = (
    lab03.predict_all_reduce_s(8, n, *fit) for n in (lab03.crossover_bytes(8, *fit), 0)
)
tcp_s = lab03.ring_all_reduce_s(2, decode, tcp_c, tcp_a, tcp_busbw)
least_s = lab03.all_reduce_range_s("10 GbE", 2, decode)[0]  # of the first page
least = tcp["c_s"][0], tcp["a_s"][0], 10 * tcp["busbw_bytes_per_s"][1]
less_s = least_s - lab03.ring_all_reduce_s(2, decode, *least)
per_rank = {p: figures.cost.h100_constants(p)[2] for p in (2, 8)}
cross = lab03.crossover_bytes(8, c_s, a_s, busbw)
until = figures.cost.one_shot_until(8, fact("cus0239") * 1e-6, fit[2])
points = [(p, *figures.cost.measured("H100", p)[n]) for p, n in ((2, 0), (8, 0), (8, -1))]
(_, n1, t1), (_, _, t2), (_, n3, t3) = points
algorithm, bus = n3 / t3, lab03.bus_bandwidth("all_reduce", 8, n3, t3)
by_hand_a = (t2 - t1) / 12
by_hand_c = t1 - 2 * by_hand_a
by_hand_busbw = 2 * 7 / 8 * n3 / (t3 - by_hand_c - 14 * by_hand_a)
found = lab03.calibrate(points)
protocol_rows = []
for name, row in zip(("LL", "Simple, short", "Simple, full"), lab03.NCCL_PROTOCOLS, strict=True):
    takes = (lab03.predict_all_reduce_s(8, n, *found, [row]) for n in (n1, n3))
    fill = f"{row[2] / 1e6:g} MB"
    protocol_rows.append([name, f"{row[0]:g}", f"{row[1]:g}", fill, *map(microseconds, takes)])

by_hand_is_near = max(abs(by_hand_a / found[1] - 1), abs(by_hand_busbw / found[2] - 1)) < 0.05

# What the page says, held.
alike_for_two = lab03.one_shot_all_reduce_s(2, 1e6, 0, 1e9) == lab03.two_shot_all_reduce_s(
    2, 1e6, 0, 1e9
)
more_for_three = lab03.one_shot_all_reduce_s(3, 1e6, 0, 1e9) > lab03.two_shot_all_reduce_s(
    3, 1e6, 0, 1e9
)
two_regimes = decode < cross / 100 and prefill > 5 * cross
four_times_the_bytes = lab03.one_shot_all_reduce_s(
    8, 1e6, 0, 1e9
) == 4 * lab03.two_shot_all_reduce_s(8, 1e6, 0, 1e9)
hops_outweigh_the_launch = 14 * a_s > c_s > 2 * a_s
more_than_the_link = link["busbw_bytes_per_s"][1] / 1e9 > link["printed"][0] / 2
nearly_all_latency = lab03.latency_share(2, decode, c_s, a_s, busbw) > 0.97
slower_alone = fact("cus0245") > fact("ncc0049") > fact("cus0239")
