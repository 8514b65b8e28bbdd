"""Lab 05, latent attention: caches, the published ratio, a context over three ranks."""

import figures
import numpy as np
from collectives import run_ranks
from labbook.labs import solution

lab05 = solution("lab-05")
e = figures.experts
given = e.given()
r1 = given.MODELS["DeepSeek-R1"]
heads, head_dim, latent, rotary = 128, 128, 512, 64
expanded = heads * (head_dim + rotary + head_dim) * 2
kept = lab05.cache_bytes_per_token(1, r1["head_bytes"], 1, False)

attention = given.FLASH_ON_B200S[1]
fits = {dp: lab05.requests_that_fit(*given.FLASH_ON_B200S, dp) for dp in (False, True)}
ratio = fits[True] / fits[False]
published = 156.9 / 20.43
copies = (1 - 1 / 8) * attention
own_weights, other_weights = e.join_weights()

cache_rows = []
for name, kv_heads, head_bytes in (
    ("one latent (MLA)", 1, r1["head_bytes"]),
    ("8 KV heads", 8, 512),
    ("1 KV head", 1, 512),
):
    per = [lab05.cache_bytes_per_token(kv_heads, head_bytes, p, False) for p in (1, 8)]
    dp = lab05.cache_bytes_per_token(kv_heads, head_bytes, 8, True)
    gain = per[0] / per[1], 8 * per[0] / dp
    cache_rows.append([name, *(f"{n:,}" for n in (per[1], dp)), *(f"{g:.0f} x" for g in gain)])

rng = np.random.default_rng(6)
q, k, v = (rng.standard_normal(shape) for shape in ((4, 8), (10, 4, 8), (10, 4, 8)))
whole, _ = lab05.attention_part(q, k, v)
parts = run_ranks(lab05.context_rank, [(q, k[r::3], v[r::3]) for r in range(3)])
averaged = np.mean([lab05.attention_part(q, k[r::3], v[r::3])[0] for r in range(3)], axis=0)
most = e.room(8000, e.PLANS[0])
long_context = {
    p: e.step_ms(most, 8000, plan) for p, plan in zip(("tp", "ep", "dp"), e.PLANS, strict=True)
}
gains = [gain for row in cache_rows[:2] for gain in row[3:]]


def error(output):
    return abs(output - whole).max()


memory, attention_bytes, expert_bytes, _, ranks = given.FLASH_ON_B200S
left = memory - (attention_bytes + expert_bytes) / ranks  # to the cache of a rank, by TP
as_published = abs(ratio - published) < 0.05 and abs(8 * (1 - copies / left) / ratio - 1) < 1e-9

# What the page says, held.
latent_is_small = kept == (latent + rotary) * 2 and 50 < expanded / kept < 80
gains_by_eight = gains == ["1 x", "8 x", "8 x", "8 x"]
exact_if_joined = error(parts[0]) < 1e-14 and error(averaged) > 0.05
weights_add_up = abs(own_weights + other_weights - 1) < 1e-12
other_way_round = long_context["tp"] > 1.2 * long_context["dp"]
