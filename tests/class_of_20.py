"""A class of twenty as each platform exports its hand-ins, for tests and for a look at the pages.

`python -m tests.class_of_20 FOLDER` writes all of them, and the roster, below the folder.
"""

import csv
import io
import re
import sys
import zipfile
from pathlib import Path

from labkit.loading import choose_lab, find_labs

LAB = choose_lab("lab-01", find_labs())
PEOPLE = [  # family name, given name, login; two of one name, one with a single name
    *[("Wei", "Chen", "wchen1"), ("Wei", "Chen", "wchen2"), ("Sukarno", "", "sukarno")],
    *[("Núñez", "José", "jnunez"), ("O'Brien", "Cy", "cobrien"), ("Doe", "Jane", "jdoe")],
    *[("Poe", "Bo", "bpoe"), ("de la Cruz", "Ana María", "acruz"), ("Łoś", "Żaneta", "zlos")],
    *[("Roe", "Al", "aroe"), ("Fox", "Dee", "dfox"), ("Ng", "Kim", "kng"), ("Yu", "Li", "lyu")],
    *[("Ek", "Åsa", "aek"), ("May", "Jo", "jmay"), ("Orr", "Pat", "porr"), ("Tan", "Su", "stan")],
    *[("Abe", "Rin", "rabe"), ("Diaz", "Eva", "ediaz"), ("Kay", "Max", "mkay")],
]
ONE_TASK = """if num_ranks < 1 or size % num_ranks:
        raise ValueError(f"{dimension}={size} is not divisible by num_ranks={num_ranks}")
    step = size // num_ranks
    return [slice(r * step, (r + 1) * step) for r in range(num_ranks)]"""


def programs() -> dict[str, bytes]:
    """What was handed in, by what it is."""
    solution = LAB.file("solution").read_text(encoding="utf-8")
    starter = LAB.file("starter").read_text(encoding="utf-8")
    todo = re.search(r"    raise NotImplementedError\(.*?\n    \)\n", starter, re.S)[0]
    averaged = solution.replace("for mine in inputs])[0]", "for mine in inputs])[0] / num_ranks")
    renamed = re.sub(r"\b(mine|hidden|inputs|outputs|width|copies|head_dim)\b", r"my_\1", solution)
    return {
        "solved": solution.encode(),
        "averaged": averaged.encode(),
        "renamed": renamed.replace("my_head_dim, in]", "head_dim, in]").encode(),
        "untouched": starter.encode(),
        "one task": starter.replace(todo, f"    {ONE_TASK}\n", 1).encode(),
        "hangs": b"while True:\n    pass\n",
        "syntax": solution.replace("def row_parallel(", "def row_parallel((").encode(),
        "pandas": b"import pandas\n" + solution.encode(),
        "BOM": b"\xef\xbb\xbf" + solution.replace("\n", "\r\n").encode(),
    }


KINDS = [
    *["solved", "averaged", "untouched", "solved", "one task", "renamed", "averaged", "BOM"],
    *["syntax", "hangs", "pandas", "notebook", "zip", "again", "late", "averaged", "both"],
    *["lone", "absent", "solved"],
]


def files(kind) -> dict[str, bytes]:
    """The files of one hand-in: name -> bytes."""
    code = programs()
    tree = "phase-10-distributed-inference/labs/lab-01-tp-sharding-math/starter.py"
    special = {
        "notebook": {"answer.ipynb": b"{}"},
        "zip": {"work.zip": zipped({tree: code["solved"]})},
        "again": {"starter-01.py": code["untouched"], "starter-01-2.py": code["averaged"]},
        "late": {"starter-01.py": code["averaged"]},
        "both": {"starter.py": code["averaged"], tree: code["untouched"]},
        "lone": {"lab01_final.py": code["one task"]},
        "absent": {},
    }
    return special.get(kind) or ({} if kind == "absent" else {"starter-01.py": code[kind]})


def zipped(members) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def canvas(n, family, given, login, name):
    folded = re.sub(r"[^\w]", "", f"{family}, {given}".lower())
    late = "LATE_" * (KINDS[n] == "late")
    flat = re.sub(r"[\x00/\\:*?\"<>|]+", "_", Path(name).name)
    return f"{folded}_{late}{8000 + n}_{90_000 + n + 100 * ('-2' in name)}_{flat}"


def moodle(n, family, given, login, name):
    return f"{f'{given} {family}'.strip()}_{300 + n}_assignsubmission_file_/{name}"


def gradescope(n, family, given, login, name):
    return f"assignment_9_export/submission_{500 + n}/{name}"


def blackboard(n, family, given, login, name):
    day = "02" if KINDS[n] == "late" else "01"
    return f"Lab 01_{login}_attempt_2026-11-{day}-2{'-2' in name:d}-00-00_{Path(name).name}"


def brightspace(n, family, given, login, name):
    day = "2" if KINDS[n] == "late" else "1"
    return f"{7000 + n}-99 - {f'{given} {family}'.strip()} - Nov {day}, 2026 1000 PM/{name}"


def classroom50(n, family, given, login, name):
    return f"di-lab-01_submissions_2026_11_30_T_12_00_00/di-lab-01-{login}/{name}"


def clone(n, family, given, login, name):
    return f"labs-submissions/labs-{login}/{name}"


def plain(n, family, given, login, name):
    return f"{f'{family}, {given}' if n % 3 else login}/{name}" if given else f"{family}/{name}"


SHAPES = {f.__name__: f for f in (canvas, moodle, gradescope, blackboard, brightspace)}
SHAPES |= {f.__name__: f for f in (classroom50, clone, plain)}


def export(shape) -> dict[str, bytes]:
    """Every file of the class's export: path -> bytes."""
    found = {}
    for n, person in enumerate(PEOPLE):
        for name, data in files(KINDS[n]).items():
            # where a platform keeps no folders, only the file's own name is left
            path = SHAPES[shape](n, *person, name)
            while path in found:
                path = path.replace(".py", "-3.py")
            found[path] = data
    if shape == "gradescope":
        about = ["---"]
        for n, (family, given, login) in enumerate(PEOPLE):
            about += [f"submission_{500 + n}:", "  :submitters:"]
            about += [f"  - :name: {given} {family}".rstrip(), f"    :sid: s{n}"]
            about += [f"    :email: {login}@x.edu"]
            day = "02" if KINDS[n] == "late" else "01"
            about += [f"  :created_at: 2026-11-{day} 22:00:00.000000000 Z", "  :status: ok"]
        found["assignment_9_export/submission_metadata.yml"] = "\n".join(about).encode()
    return found


def roster(shape="canvas") -> str:
    """The class as Canvas' gradebook, Moodle's participants or Classroom 50's roster has it."""
    heads = {
        "canvas": "Student,ID,SIS User ID,SIS Login ID,Section",
        "moodle": "First name,Last name,ID number,Email address,Groups",
        "gradescope": "Name,SID,Email",
        "classroom50": "username,first_name,last_name,email,section,github_id",
    }
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(heads.get(shape, heads["canvas"]).split(","))
    for n, (family, given, login) in enumerate(PEOPLE):
        sortable, whole = f"{family}, {given}".rstrip(", "), f"{given} {family}".strip()
        row = {"moodle": [given, family, f"s{n}", f"{login}@x.edu", ""]}
        row["gradescope"] = [whole, f"s{n}", f"{login}@x.edu"]
        row["classroom50"] = [login, given, family, f"{login}@x.edu", "A", 40 + n]
        rows.writerow(row.get(shape, [sortable, 8000 + n, f"s{n}", login, "AB"[n % 2]]))
    return out.getvalue()


def write(folder, shape, packed=False) -> Path:
    """The export of a shape below a folder, as a folder or as a zip file."""
    content = export(shape)
    if packed:
        place = Path(folder, f"{shape}.zip")
        place.write_bytes(zipped(content))
        return place
    for name, data in content.items():
        path = Path(folder, shape, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Path(folder, shape)


if __name__ == "__main__":
    for kind in SHAPES:
        print(write(sys.argv[1], kind))
        Path(sys.argv[1], f"{kind}.csv").write_text(roster(kind), encoding="utf-8")
