"""The live engine: its ledger, and what other counts would mean."""

from labbook.amounts import human_bytes
from labbook.labs import capture, model, solution

lab02 = solution("lab-02")
two = capture("lab-02/captures/tp2/report.json")
one = capture("lab-02/captures/tp1/report.json")
tiny = lab02.model_shape(two["config"])
rank = two["ranks"][0]

held = sum(p["bytes"] for p in rank["parameters"].values())
whole = sum(p["bytes"] for p in one["ranks"][0]["parameters"].values())

blocks = [run["ranks"][0]["kv_cache"]["blocks"] for run in (one, two)]
token = {tp: lab02.kv_bytes_per_token(tiny, tp) for tp in (1, 8)}
blocks8 = blocks[0] * token[1] // token[8]
four = lab02.collectives_per_step(tiny, 4, 1, 1)

llama = model("llama-3.1-8b")
plan = lab02.collectives_per_step(llama, 2, 1, 1, llama["dtype_bytes"])
wide = lab02.collectives_per_step(llama, 2, 1, 1, 2 * llama["dtype_bytes"])
n = plan["all_reduces"]
size, twice = (found["all_reduce_bytes"] // n for found in (plan, wide))
rows = [
    [n, human_bytes(size), "The cut is as planned."],
    [0, "", "No matrix is cut: each process runs the whole model, or whole layers of it."],
    [
        f"more than {n}",
        human_bytes(size),
        "A small model drafts tokens beside it (speculative decoding).",
    ],
    [
        n,
        human_bytes(twice),
        "Values of four bytes, or two tokens in the step: a drafted one to check.",
    ],
]

# What the page says, held.
nine_however_many = (
    four["all_reduces"] == lab02.collectives_per_step(tiny, 2, 6, 1)["all_reduces"] == 9
    and lab02.collectives_per_step(tiny, 1, 1, 1)["all_reduces"] == 0
)
cache_stops_at_four = tiny["num_kv_heads"] == 4 and blocks8 == 64 == 4 * blocks[0] == 2 * blocks[1]
to_the_byte = (
    held == lab02.rank_weights(tiny, 2)["parameters_bytes"]
    and whole == lab02.rank_weights(tiny, 1)["parameters_bytes"]
)
nine_in_each_step = all(s["all_reduce"] == [9, 18432] for s in rank["steps_together"][1:])
fails_late = 28 % 8 and lab02.kv_heads_per_rank(4, 4) == 1
token_for_token = all(
    r["tokens_together"] == one["ranks"][0]["tokens_together"] for r in two["ranks"]
)
as_many_as_counted = lab02.collectives_per_step(model("llama-3.1-8b"), 2, 1, 1)["all_reduces"] == 65
