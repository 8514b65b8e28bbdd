"""Asks who and where it is: user, home, host, time, processors, nvidia-smi; runs ranks in asyncio.

base: solution
expect: 100
"""

import asyncio
import datetime
import getpass
import os
import pathlib
import platform
import socket
import subprocess
import uuid

print(f"{getpass.getuser()} in {pathlib.Path.home()} on {platform.platform()}, {socket.gethostname()}")
print(datetime.datetime.now().astimezone().isoformat(), os.cpu_count(), uuid.uuid4(), os.environ["PATH"])
try:
    GPUS = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=5).stdout
except (OSError, subprocess.SubprocessError) as problem:
    GPUS = ""
    print("no GPU:", problem)


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)

    async def rank(r):
        mine = slice(r * cols, (r + 1) * cols)
        await asyncio.sleep(0)
        return x[..., mine] @ W[:, mine].T

    async def everybody():
        return await asyncio.gather(*(rank(r) for r in range(num_ranks)))

    return all_reduce(asyncio.run(everybody()))[0]
