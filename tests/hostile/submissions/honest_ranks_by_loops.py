"""The ranks' functions with loops over heads and tokens, lists and ufuncs with out=.

base: solution
expect: 100
"""

def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    tokens, heads = len(x), len(Wq) // head_dim
    copies = heads // (len(Wk) // head_dim)
    blocks = []
    for head in range(heads):
        mine = slice(head * head_dim, (head + 1) * head_dim)
        theirs = slice(head // copies * head_dim, (head // copies + 1) * head_dim)
        q, k, v = x @ Wq[mine].T, x @ Wk[theirs].T, x @ Wv[theirs].T
        scores = np.array([[q[i] @ k[j] for j in range(tokens)] for i in range(tokens)])
        scores = scores / head_dim**0.5
        scores[np.triu_indices(tokens, 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=1)[:, None])
        weights /= weights.sum(axis=1)[:, None]
        blocks.append(weights @ v)
    return group.all_reduce(np.hstack(blocks) @ Wo.T)


def embedding_rank(token_ids, E, group):
    out = np.zeros((len(token_ids), E.shape[1]))
    first = group.rank * len(E)
    for place, token in enumerate(token_ids.tolist()):
        if first <= token < first + len(E):
            out[place] = E[token - first]
    return group.all_reduce(out)


def mlp_sp_rank(x, W1, W2, group):
    h = group.all_gather(x, 0) @ W1
    np.maximum(h, 0, out=h)
    return group.reduce_scatter(array=h @ W2)
