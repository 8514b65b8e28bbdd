"""Prints its own source, logs to a file beside it, to a temporary file, to logging.

base: solution
expect: 100
"""

import logging
import os
import pathlib
import tempfile

print(open(__file__).read()[:2000])
logging.basicConfig(filename="lab01.log", level=logging.DEBUG)
log = logging.getLogger(__name__)
HERE = pathlib.Path(__file__).resolve().parent
with open(HERE / "trace.txt", "a") as file:
    file.write(f"{os.getcwd()=} {__name__=}\n")

_column, _row = column_parallel, row_parallel


def column_parallel(x, W, num_ranks):
    log.info("column %s %s", x.shape, W.shape)
    with tempfile.TemporaryFile() as file:
        np.save(file, np.arange(3))
    return _column(x, W, num_ranks)


def row_parallel(x, W, num_ranks):
    y = _row(x, W, num_ranks)
    print(f"{y = }"[:100])
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(str(y))
    return y
