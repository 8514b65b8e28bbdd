"""A rank looks for the other ranks' arguments in every frame and object of the process.

base: solution
expect: below 100, above 0
loses: test_mlp_sp_rank__gives*
keeps: test_row_parallel__equals*
"""

import gc
import sys


def mlp_sp_rank(x, W1, W2, group):
    whole = group.all_gather(x, axis=0)
    frames = list(sys._current_frames().values())
    arrays = [a for a in gc.get_objects() if type(a) is np.ndarray]
    for frame in frames:
        while frame:
            arrays += [a for a in frame.f_locals.values() if type(a) is np.ndarray]
            frame = frame.f_back
    W1s = {a.tobytes(): a for a in arrays if a.shape == W1.shape}
    W2s = {a.tobytes(): a for a in arrays if a.shape == W2.shape}
    group.reduce_scatter(np.zeros((len(whole), W2.shape[1])), axis=0)
    assert group.size == 1 or len(W1s) >= group.size
    return np.split(sum(np.maximum(whole @ a, 0) @ b for a, b in zip(W1s.values(), W2s.values())), group.size)[group.rank]
