"""Run place.py in a page, as a terminal does: what it prints, its status, the picture it wrote."""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

PICTURE = "picture.svg"


def run(course, options, files, tell):
    """options: as one types them behind `python place.py`. files: texts by name, to be named there.

    Returns JSON: {"screen", "status", "picture": the text of picture.svg or null, "seconds"}.
    """
    tell("say", "The planner is at work.")
    capstone = next(Path(course).glob("phase-*/labs/capstone"))
    for folder in (course, str(capstone.parent), str(capstone)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    os.environ.update(LAB_IMPL="solution", COLUMNS="100", NO_COLOR="1", PYTHON_COLORS="0")
    screen, began = io.StringIO(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in files.items():
            Path(Path(name).name).write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            status = _main(options)
        picture = Path(PICTURE).read_text("utf-8") if Path(PICTURE).is_file() else None
    from labkit.loading import RUNS_YOURS  # it is the course's, whose folder is on the path

    said = screen.getvalue().replace(RUNS_YOURS, "")  # in a terminal
    found = {"screen": said, "status": status, "picture": picture}
    return json.dumps(found | {"seconds": time.monotonic() - began})


def _main(options):
    import place

    try:
        arguments = shlex.split(options)
    except ValueError as error:  # a quotation that does not end
        print(f"place.py: {error}", file=sys.stderr)
        return 2
    if "live" in arguments:
        print("place.py: `live` starts engines, which a page cannot: see it in a terminal")
        return 2
    try:
        return place.main(arguments)
    except SystemExit as ended:
        return ended.code
