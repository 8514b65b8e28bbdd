"""Activations are changed in place, by every way that numpy has.

base: solution
expect: 100
"""


def relu_at(h):
    np.multiply.at(h, np.nonzero(h < 0), 0.0)


def relu_by_where(h):
    np.multiply(h, 0.0, out=h, where=h < 0)


def relu_by_divmod(h):
    half, rest = h.copy(), h.copy()
    np.divmod(h, 0.5, out=(half, rest))
    h[...] = np.maximum(half * 0.5 + rest, 0)


def relu_into_another(h):
    other = np.zeros(h.shape)
    np.maximum(h, 0.0, out=other, where=h > 0)
    h[...] = other


def relu_by_position(h):
    np.clip(h, 0.0, None, h)


def relu_one_by_one(h):
    for index, value in np.ndenumerate(h):
        if value < 0:
            h[index] = 0.0


def relu_flat(h):
    h.flat[np.flatnonzero(h < 0)] = 0.0


def relu_all_of_flat(h):
    h.flat = [max(value, 0.0) for value in h.flat]


def relu_view(h):
    h.view()[h < 0] = 0.0


def relu_real(h):
    h.real[h < 0] = 0.0
    h.real = np.real(h)


def relu_the_same_array(h):
    same = np.asarray(h, dtype=np.float64)
    same[same < 0] = 0.0


def relu_along_axis(h):
    for column in range(h.shape[-1]):
        index = np.full((*h.shape[:-1], 1), column)
        np.put_along_axis(h, index, np.maximum(h[..., column : column + 1], 0), axis=-1)


def relu_turned(h):
    for turned in (np.flipud(h), np.fliplr(h), np.rot90(h), np.atleast_3d(h)):
        turned[turned < 0] = 0.0


def relu_fill(h):
    for row in h.reshape(-1, h.shape[-1]):
        if (row < 0).all():
            row.fill(0.0)
        else:
            row.put(np.flatnonzero(row < 0), 0.0, mode="clip")


def relu_sorted_and_back(h):
    order = np.argsort(h, axis=-1)
    np.put_along_axis(h, order, np.maximum(np.sort(h, axis=-1), 0), -1)


def relu_accumulate(h):
    sums = h.copy()
    np.add.accumulate(np.maximum(h, 0), axis=-1, out=sums)
    h[...] = np.diff(sums, axis=-1, prepend=0.0)
    h[np.abs(h) < 1e-13] = 0.0


WAYS = [
    lambda h: np.copyto(h, 0.0, where=h < 0),
    lambda h: np.copyto(dst=h, src=np.maximum(h, 0), casting="same_kind"),
    lambda h: np.putmask(h, h < 0, 0.0),
    lambda h: np.place(h, h < 0, [0.0]),
    lambda h: np.put(h, np.flatnonzero(h < 0), 0.0),
    lambda h: np.nan_to_num(h.__setitem__(h < 0, np.nan) or h, copy=False),
    relu_at,
    relu_by_where,
    relu_by_divmod,
    relu_into_another,
    relu_by_position,
    relu_one_by_one,
    relu_flat,
    relu_all_of_flat,
    relu_view,
    relu_real,
    relu_the_same_array,
    relu_along_axis,
    relu_turned,
    relu_fill,
    relu_sorted_and_back,
    relu_accumulate,
]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        h = x @ W1[:, rank * width : (rank + 1) * width]
        each = [h.copy() for _ in WAYS]
        for way, own in zip(WAYS, each):
            way(own)
        h = sum(each) / len(WAYS)
        partials.append(np.empty((*x.shape[:-1], W2.shape[1])))
        np.dot(h, W2[rank * width : (rank + 1) * width], partials[-1])
    return all_reduce(partials)[0]


def row_parallel(x, W, num_ranks):
    """Running sums keep their earlier values, and a copy stays a copy."""
    cols = shard_size("in_features", W.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        block = slice(rank * cols, (rank + 1) * cols)
        y = x[..., block] @ W[:, block].T
        turned = np.ascontiguousarray(y.T)
        turned *= 2
        total, sums = 0.0, [0.0]
        for value in y.reshape(-1)[:4]:
            total += value
            sums.append(total)
        y.reshape(-1)[:4] = [after - before for before, after in zip(sums, sums[1:])]
        partials.append(y)
    return all_reduce(partials)[0]
