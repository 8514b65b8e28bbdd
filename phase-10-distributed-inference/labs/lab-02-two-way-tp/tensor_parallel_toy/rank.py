"""One rank as `launch` starts it: imported once, with Torch, and forked (labkit.nursery)."""

import sys

from tensor_parallel_toy import group  # noqa: F401
from tensor_parallel_toy.launch import as_rank


def main():
    as_rank(sys.argv[-1])


if __name__ == "__main__":
    main()
