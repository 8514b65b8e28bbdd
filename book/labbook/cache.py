"""Results kept between builds, keyed by everything they depend on."""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# what a result can depend on; prose is read afresh each time
SUFFIXES = {".py", ".json", ".jsonl", ".log", ".txt", ".toml", ".ini", ".csv", ".svg"}


def fingerprint(paths: Iterable[Path]) -> str:
    """One hash over the files (and the files of the folders) that results may depend on."""
    digest = hashlib.sha256(platform.python_version().encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix in SUFFIXES and "__pycache__" not in file.parts and file.is_file():
                digest.update(file.relative_to(path.parent).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def write(file: Path, text: str) -> None:
    """Whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


class Cache:
    """A folder of JSON files; `salt` is the fingerprint of the code behind the results."""

    def __init__(self, folder: Path, salt: str) -> None:
        self.folder, self.salt = folder, salt
        self.misses = 0

    def get(self, key: Any, compute: Callable[[], Any], salt: str = "") -> Any:
        """The stored result for `key`, or compute() stored under it. Results are plain JSON.

        `salt` takes the place of the cache's own, for a result that depends on other files.
        """
        text = json.dumps([salt or self.salt, key])
        file = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            pass
        self.misses += 1
        result = compute()
        write(file, json.dumps(result))
        return result
