"""Short quotations of vLLM for the deep dive, with file, symbol and lines.

python book/quotes/collect.py FOLDER    FOLDER holds the package `vllm` of vllm.json's version

vllm.json, beside this file, says what is wanted: file, symbol, and how the first and the last line
begin (`from`, `to`). This writes the lines, the text and its hash into it, for the book.
"""

import ast
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("vllm.json")


def find(text: str, symbol: str) -> ast.AST:
    node: ast.AST = ast.parse(text)
    for step in symbol.split(".") if symbol != "module level" else ():
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", "") == step)
    return node


def collected(package: Path, quote: dict[str, Any]) -> dict[str, Any]:
    """The quotation as it stands in `package`."""
    text = (package / quote["file"]).read_text(encoding="utf-8")
    node, lines = find(text, quote["symbol"]), text.splitlines()
    inside = range(getattr(node, "lineno", 1) - 1, getattr(node, "end_lineno", len(lines)))
    first = next(i for i in inside if lines[i].lstrip().startswith(quote["from"]))
    last = next(i for i in inside if i >= first and lines[i].lstrip().startswith(quote["to"]))
    body = "\n".join(lines[first : last + 1])
    digest = hashlib.sha256(body.encode()).hexdigest()
    return quote | {"lines": [first + 1, last + 1], "text": body, "sha256": digest}


def collect(package: Path) -> dict[str, Any]:
    """vllm.json, with every quotation taken from `package` anew."""
    stored = json.loads(TARGET.read_text(encoding="utf-8"))
    quotes = {name: collected(package, quote) for name, quote in stored["quotes"].items()}
    return stored | {"quotes": quotes}


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "vllm").is_dir():
        sys.exit(f"{__doc__}\nGive the folder that holds the package vllm, such as site-packages.")
    found = collect(Path(sys.argv[1]) / "vllm")
    TARGET.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{len(found['quotes'])} quotations written to {TARGET.name}")
