"""One model of time: the labs' formulas never exceed what the planner says of its best box."""

import random
import sys
from functools import cache

import pytest

from labkit.loading import choose_lab, find_labs

CAPSTONE = choose_lab("capstone", find_labs()).path
sys.path.insert(0, str(CAPSTONE))

from planner import floor, hardware, models, plans, timing  # noqa: E402
from planner.timing import Load  # noqa: E402

GPUS = sorted({row["name"] for row in hardware.known_gpus().values()})
SAME = {"reading": "weights, arithmetic", "cache": "cache", "messages": "messages"}
read = cache(models.read)
ALLOWED = 1 + 1e-9  # float sums in another order


def draw(seed):
    """A (model, plan, box, load) that the planner would consider, some of it impossible to hold."""
    rng = random.Random(seed)
    while True:
        model = read(rng.choice(models.shipped_names()))
        network = rng.choice(["10 GbE", "100 GbE", "400 GbE"])
        box = hardware.box(rng.choice(GPUS), rng.choice([1, 1, 2, 4]), network=network)
        legal, _ = plans.legal_plans(model, box)
        if legal:
            break
    load = Load(
        rng.choice([16, 200, 2000, 30_000]),
        rng.choice([1, 100, 2000]),
        rng.choice([1, 2, 3, 7, 16, 64, 300, 2000]),
        kv_bytes=rng.choice([1, 2]),
    )
    return model, rng.choice(legal), box, load


@pytest.mark.parametrize("seed", range(10))
def test_the_labs_floor_lies_under_the_planners_best_box(seed):
    tried = {"one stage": 0, "stages": 0}
    for number in range(100):
        model, plan, box, load = draw(1000 * seed + number)
        batch = -(-load.concurrency // plan.replicas)
        context = load.prompt + load.output / 2
        least = floor.terms(model, plan, box, batch, context, load.kv_bytes)
        best = timing.decode_terms(model, plan, box.at(hardware.BEST), batch, context, load)
        said = f"{model.name}, {box.gpu} x {box.nodes}, {plan.name}, {batch} x {context:.0f}"
        assert all(value >= 0 for value in least.values()), said
        assert least["total"] <= best["total"] * ALLOWED, said
        assert least["boundaries"] <= best["hops and bubbles"] * ALLOWED + 1e-12, said
        for name, same in SAME.items():
            assert least[name] <= best[same] * ALLOWED, f"{name} of {said}"
        tried["one stage" if plan.pp_size == 1 else "stages"] += 1
    assert min(tried.values()) > 10


def test_the_floor_is_no_triviality():
    """On one GPU at batch 1 it is more than half of the planner's best step of a large model."""
    model, box = read("qwen2.5-32b"), hardware.box("h100", 1)
    found = floor.beside(model, plans.Plan(1, 1), box, Load(1000, 500, 1))
    assert 0.5 < found["floor"]["total"] / found["best"] < 1
    assert found["best"] < found["typical"] < found["worst"]
