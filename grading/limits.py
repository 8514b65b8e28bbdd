"""What one submission may use. Every clock and counter is held outside the sandbox."""

import math
from dataclasses import dataclass

MIB = 1 << 20
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
INCIDENTS = ("protocol", "memory", "timeout", "output", "crashed")  # end a check; worst first
LOST = 5  # how many workers or jobs one submission may lose before it is held


@dataclass(frozen=True)
class Limits:
    """Limits of one submission and lab; times are of waiting for the submission's own code."""

    check_s: float = 10.0  # wall clock, one check
    submission_s: float = 60.0  # wall clock, all checks together; again to tell why some fail
    memory_bytes: int = 1024 * MIB  # resident, of all its processes together
    processes: int = 32  # threads, that is: new processes are refused
    output_bytes: int = 1 * MIB  # printed while one check runs
    disk_bytes: int = 16 * MIB  # in its /tmp; and of each file
    files: int = 128
    source_bytes: int = 4 * MIB  # notes and pasted outputs may be long

    @property
    def cpu_s(self) -> int:
        """Of one process, which the kernel counts in whole seconds."""
        return math.ceil(self.submission_s)

    @property
    def address_space_bytes(self) -> int:
        return self.memory_bytes + 2048 * MIB  # numpy reserves more than it touches
