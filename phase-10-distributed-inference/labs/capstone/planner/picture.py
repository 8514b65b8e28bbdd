"""One GPU's memory as a stacked bar, and the latency-throughput front of all plans."""


def draw(candidates, shown, box):
    raise ValueError("the picture is not drawn yet")
