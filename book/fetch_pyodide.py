"""Fetch Python for the page: the npm package that pyodide.json pins, checked, kept in .cache/.

Without npm, or without a network, it says so and leaves the book to build without.
"""

import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

BOOK = Path(__file__).resolve().parent
sys.path.insert(0, str(BOOK))
from labbook.bundle import kept, pin  # noqa: E402
from labbook.cache import write  # noqa: E402

PARTS = ("pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs", "python_stdlib.zip")
PARTS += ("pyodide-lock.json",)
WITHOUT = "the book builds without Python in its pages; they say how to run the labs in a terminal"


def main() -> None:
    if kept(BOOK).is_file():
        return
    npm = shutil.which("npm")
    if not npm:
        print(f"no npm here: {WITHOUT}")
        return
    with tempfile.TemporaryDirectory(prefix="pyodide-") as folder:
        pinned = pin(BOOK)
        wanted = f"{pinned['package']}@{pinned['version']}"
        command = [npm, "pack", "--silent", "--pack-destination", folder, wanted]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            print(f"npm pack {wanted} did not work: {WITHOUT}")
            return
        digest = hashlib.sha512(found[0].read_bytes()).digest()
        if pinned["integrity"] != "sha512-" + base64.b64encode(digest).decode():
            sys.exit(f"{wanted} is not the package that book/pyodide.json names: its hash differs")
        with tarfile.open(found[0]) as archive:
            packed = {part: pack(archive.extractfile(f"package/{part}").read()) for part in PARTS}
    write(kept(BOOK), f"window.LAB_PYODIDE = {json.dumps(packed)};\n")


def pack(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


if __name__ == "__main__":
    main()
