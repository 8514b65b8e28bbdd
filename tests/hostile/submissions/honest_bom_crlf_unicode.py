"""Written on Windows, with a mark in front, in the writer's own alphabet.

base: solution
encode: utf-8-sig crlf
expect: 100
"""

# Größe je Rang — 每个进程的大小 — μέγεθος
größe = shard_size


def 行并行(x, W, 进程数):
    '''Résultat partiel ∑ₖ xₖ·Wₖᵀ 🙂'''
    δ = größe("in_features", W.shape[1], 进程数)
    φ = [x[..., ρ * δ : (ρ + 1) * δ] @ W[:, ρ * δ : (ρ + 1) * δ].T for ρ in range(进程数)]
    return all_reduce(φ)[0]


row_parallel = 行并行
