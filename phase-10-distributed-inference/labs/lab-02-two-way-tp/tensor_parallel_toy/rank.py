"""One rank as `launch` starts it: imported once, with Torch, and forked (labkit.ranks)."""

import json
import sys

from tensor_parallel_toy import group  # noqa: F401
from tensor_parallel_toy.launch import run_rank


def main():
    run_rank(**json.loads(sys.argv[-1]))


if __name__ == "__main__":
    main()
