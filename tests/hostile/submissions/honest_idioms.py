"""What numpy does in place, or to a view, it does to a result as well; else it says what to write.

base: solution
expect: 100
"""

WORK = """
np.copyto(h[1:], h[:-1])
np.putmask(h.T, h.T < 0, [1.0, 2.0])
np.place(h[:, ::2], h[:, ::2] < 0, [1.0, 2.0, 3.0])
np.put(h, [0, 300], 1.0, "clip")
h.put([1, 2], [5.0, 6.0])
np.fill_diagonal(h, [1.0, 2.0], wrap=True)
np.put_along_axis(h, np.argmax(h, axis=1)[:, None], 0.0, axis=1)
np.add.at(h, ([0, 0, 1], [1, 1, 2]), [1.0, 2.0, 3.0])
np.negative.at(h, [0, 2])
np.subtract.at(h, h < 0, 1.0)
h.flat[-1] += 5
h.T.flat[:4] = [1, 2, 3, 4]
a = h.flat[1:4]; a += 1
it = h.flat; next(it); R = next(it), it.index
R = [v * 2 for v in h.flat], np.asarray(h.flat), len(h.flat), h.flat[h.argmin()]
h.view()[0] = 1
h.real = 2
h[0].fill(2)
h.clip(0, None, h)
np.clip(h, min=0, out=h)
np.maximum(h, 0, h)
np.add(h, 1j, out=h)
np.add.accumulate(h, axis=1, out=h)
np.cumsum(h, axis=1, out=h)
b = np.zeros(h.shape); np.multiply(h, 2, b, where=h > 0); R = b
b = np.zeros(h.shape[1]); np.sum(h, 0, None, b); R = b
b = np.zeros(h.shape[1]); h.mean(0, None, b); R = b
b = np.zeros(h.shape[1]); np.max(h, 0, b); R = b
b = np.zeros(h.shape); h.round(1, b); R = b
b = np.zeros((2, h.shape[1])); np.take(h, [0, 1], 0, b); R = b
b = np.zeros((2 * h.shape[0], h.shape[1])); np.concatenate([h, h], 0, b); R = b
b = np.ones(h.shape); np.copyto(b, h, where=h > 0); R = b
b = np.ones(h.shape); np.add.at(b, [0, 0], h[0]); R = b
b = np.ones(h.shape); np.maximum(h, 0, out=b, where=h > 1); R = b
b = np.zeros(h.shape); np.modf(h, out=(b, None)); R = b
k = np.zeros(h.shape, int); k += h
k = np.zeros(h.shape, int); np.add(h, h, out=k)
k = np.zeros(h.shape, int); np.modf(h, out=(k, None))
k = np.zeros(h.shape[1], int); k += h[0] > 0; R = k
k = np.zeros(h.shape, "f4"); k += h; R = k
k = np.zeros(h.shape, int); np.add(h, h, out=k, casting="unsafe"); R = k
k = np.zeros(h.shape, int); np.greater(h, 0, out=k); R = k
k = np.zeros(h.shape[1], int); np.add.reduce(h, out=k); R = k
k = np.zeros(h.shape[1], int); np.sum(h, 0, out=k); R = k
k = np.zeros(h.shape, int); np.maximum.accumulate(h, out=k); R = k
k = np.zeros(h.shape[1], int); h.max(0, out=k); R = k
k = np.zeros((2, 2), int); np.add.outer(h[0, :2], h[0, :2], out=k)
h -= h.mean(axis=0)
h[[0, 0]] += 1
h[1:] += h[:-1]
h[[0, 1]] = h[[1, 0]]
h[np.where(h < 0)] = 0
k = (h > 0).astype(int); k += 0.5
h.T.reshape(-1)[0] = 100
h.flatten()[0] = 100
np.asarray(h, dtype=float)[0] = 0
np.asarray(h, "f4")[0] = 0
np.asarray(h, copy=True)[0] = 0
np.array(h)[0] = 0
np.array(h, ndmin=3, copy=False)[0] = 0
np.ascontiguousarray(h)[0] = 0
np.ascontiguousarray(h.T)[0] = 0
np.asarray(h, order="F")[0] = 0
np.require(h)[0] = 0
np.rollaxis(h, 1)[0] = 0
np.rot90(h)[0] = 0
np.unstack(h)[0][...] = 0
np.diag(h)[0] = 0
np.broadcast_to(h, h.shape)[0] = 0
np.split(h, [1])[0][...] = 0
h[0, 0] = np.nan; np.nan_to_num(h, copy=False, nan=5.0)
for i, row in enumerate(h): row += i
for i, v in np.ndenumerate(h): h[i] = max(v, 0)
R = [float(v) for v in np.nditer(h)]
R = t = h[0, 0]; t += 1
R = t = h.sum(); t *= 2
R = t = h[0]; t += 1
R = np.size(h), np.size(h, axis=0), np.size(h, 1), np.size(a=h, axis=None), np.size(h, axis=(0, 1))
R = np.size(h, axis=2)
R = np.shape(h), np.shape(a=h), np.ndim(h), np.ndim(a=h), np.real(h), np.real(val=h)
R = h.max(), h[0, 0], h[[0]], h[0]; h[...] = 0
R = np.zeros_like(h, int), np.zeros_like(h, shape=4), np.full_like(a=h, fill_value=3, shape=(2, 2))
"""
REFUSED = """
h.sort()
h.partition(2)
h.view("u8")[0] = 0
h.shape = (-1,)
h.byteswap(inplace=True)
h.imag[0] = 1
np.linalg.diagonal(h)[0] = 0
np.lib.stride_tricks.sliding_window_view(h, 2, axis=1)
"""


def done(code, h):
    """What `h` and R are afterwards, or that it failed and how."""
    names = {"np": np, "h": h, "R": None}
    try:
        exec(code, names)
    except Exception as error:
        return "raises", str(error)
    return plain(names["h"]), plain(names["R"])


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def same(one, other):
    return "raises" == one[0] == other[0] or repr(one) == repr(other)


_row = row_parallel


def row_parallel(x, W, num_ranks):
    y = _row(x, W, num_ranks)
    assert (np.size(W, axis=0), np.size(W, 1)) == W.shape and np.size(a=W) == W.size  # lent as well
    if y.ndim == 2 and num_ranks == 2:
        here = np.array(y.tolist())
        for code in WORK.strip().split("\n"):
            given, right = done(code, y.copy()), done(code, here.copy())
            assert same(given, right), f"{code}: {given} is not {right}"
        for code in REFUSED.strip().split("\n"):
            given, right = done(code, y.copy()), done(code, here.copy())
            says = any(word in str(given[1]) for word in ("use ", "write ", "instead"))
            assert same(given, right) or given[0] == "raises" and says, f"{code}: {given}"
    return y
