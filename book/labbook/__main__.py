"""mdBook's protocol: `supports RENDERER`, or [context, book] on stdin and the book on stdout."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from labkit.loading import choose_lab, find_labs
from labkit.tasks import tasks_of

from .bundle import bundle
from .cache import Cache, fingerprint
from .chapter import Build, render
from .markdown import BookError


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "supports":
        return 0 if sys.argv[2] in ("html", "markdown") else 1
    start = time.perf_counter()
    os.environ.pop("LAB_IMPL", None)  # the book shows the solutions, whatever its builder edits
    context, book = json.load(sys.stdin)
    root = Path(context["root"]).resolve()
    config = context["config"]["preprocessor"]["labbook"]
    repo = (root / config.get("repo", "..")).resolve()
    build = make_build(root, repo, root / config.get("cache", ".cache"))
    runs = (root / "pyodide.json").is_file() and bundle(root, repo)
    errors: list[BookError] = []
    terms = glossary(root / "src" / "glossary.md")
    pages = list(chapters(book["items"]))
    for page in pages:
        try:
            text = task_names(render(page["content"], str(page["source_path"]), build))
            text += "\n\n<lab-record></lab-record>\n" if "<lab-guess" in text else ""
            page["content"] = tooltips(text, terms) + scripts(text, root / "src" / "widgets", runs)
        except BookError as error:
            errors.append(error)
    if errors:
        listed = "\n  ".join(str(error) for error in errors)
        print(f"labbook: the book does not build\n  {listed}", file=sys.stderr)
        return 1
    json.dump(book, sys.stdout)
    took = time.perf_counter() - start
    fresh = f"{build.cache.misses} results computed afresh" if build.cache.misses else "all cached"
    print(f"labbook: {len(pages)} pages; {took:.2f} s, {fresh}", file=sys.stderr)
    return 0


def make_build(root: Path, repo: Path, kept: Path) -> Build:
    """root: the book's folder; repo: where the labs are; kept: the folder of the cache."""
    watched = [root / "labbook", root / "figures", root / "pages", root / "quotes", repo / "labkit"]
    watched += [repo / "benchmarks" / "results"]
    watched += [repo / "conftest.py", repo / "pytest.ini", *sorted(repo.glob("phase-*"))]
    cache = Cache(kept, fingerprint(p for p in watched if p.exists()))

    def namespace() -> dict[str, Any]:
        from .names import chapter_namespace  # numpy and the labs are loaded only when needed

        return chapter_namespace(root, repo, cache)

    sources_file = root / "src" / "sources.md"
    text = sources_file.read_text(encoding="utf-8") if sources_file.exists() else ""
    return Build(cache, namespace, set(re.findall(r'<a id="([\w.-]+)">', text)))


def glossary(file: Path) -> dict[str, str]:
    """The first sentence of each definition, plain, by the anchor of its term."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = {}
    for term, meaning in re.findall(r"(?m)^(\S.*)\n: (.+(?:\n\S.*)*)", text):
        anchor = re.sub(r"[^\w -]", "", term.lower()).replace(" ", "-")
        plain = re.sub(r"\{\{\w+: ([^|}]*)[^}]*\}\}|\[([^]]*)\]\([^)]*\)", r"\1\2", meaning)
        plain = " ".join(re.sub(r'[*`"]', "", plain).split())
        found[anchor] = re.split(r"(?<=\.)\s", plain)[0]
    return found


def task_names(text: str) -> str:
    """Headings `Task 3` say the first function of it, which the side bar shows; links stay."""

    def named(match: re.Match[str]) -> str:
        first, *more = (task.function for task in tasks if task.number == int(match["number"]))
        stretch = match["stretch"] or ""
        anchor = f"task-{match['number']}" + "-stretch" * bool(stretch)
        return f"{match['what']}: {first}{', …' * bool(more)}{stretch} {{#{anchor}}}"

    if not (found := re.search(r'<lab-task lab="([\w-]+)"', text)):
        return text
    tasks = tasks_of(choose_lab(found[1], find_labs())).values()
    heading = r"(?m)^(?P<what>#+ Task (?P<number>\d+))(?P<stretch> \(stretch\))?$"
    return re.sub(heading, named, text)


def tooltips(text: str, terms: dict[str, str]) -> str:
    """Links to the glossary say the definition when the pointer rests on them."""

    def one(match: re.Match[str]) -> str:
        meaning = terms.get(match[2])
        return f'[{match[1]}](glossary.md#{match[2]} "{meaning}")' if meaning else match[0]

    return re.sub(r"\[([^]]+)\]\(glossary\.md#([\w-]+)\)", one, text)


def scripts(text: str, folder: Path, runs: bool = True) -> str:
    """Script elements for the widgets that a page uses: src/widgets/NAME.js defines <NAME>.

    lab-guess.js defines <lab-record> as well, lab-python.js what Python does in a page; both keep
    what readers write by reader-storage.js. runs: whether the book holds Python for its pages,
    without which what asks for it stays text.
    """
    text = re.sub("<(lab-task|place-model|lab-redraw)", "<lab-python", text)
    text = text.replace("<lab-record", "<lab-guess")
    used = [file.name for file in sorted(folder.glob("*.js")) if f"<{file.stem}" in text]
    used = [name for name in used if runs or name != "lab-python.js"]
    if {"lab-guess.js", "lab-python.js"} & set(used):
        used.insert(0, "reader-storage.js")
    return "".join(f'\n\n<script defer src="widgets/{name}"></script>\n' for name in used)


def chapters(items: list[Any]) -> Any:
    """Every chapter with a file, depth first."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("source_path"):
                yield chapter
            yield from chapters(chapter["sub_items"])


if __name__ == "__main__":
    sys.exit(main())
