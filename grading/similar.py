"""What is the same program as the shipped solution's, or as another hand-in's: facts, no verdicts.

Each function that the learner writes is compared without formatting, comments, docstrings, texts
and names of variables. Short ones are left out: they coincide by themselves.
"""

import ast
from contextlib import suppress

from grading.gradebook import Gradebook, labs
from labkit.tasks import tasks_of

MOST_BYTES = 200_000
SHORT = 70  # nodes of a tree; `return 2 * layers, tokens * hidden * size` has 20


def functions(source: bytes) -> dict[str, ast.FunctionDef]:
    """The functions at the top of a program, by name; {} where Python cannot read it.

    Nothing is run. A file of another size than people write would only fill the memory.
    """
    if len(source) > MOST_BYTES:
        return {}
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def fingerprints(source: bytes, wanted) -> dict[str, str]:
    """What two spellings of a function have in common, of each of `wanted` that is not short."""
    found = {}
    for name, node in functions(source).items():
        if name in wanted and sum(1 for _ in ast.walk(node)) >= SHORT:
            with suppress(RecursionError):
                found[name] = ast.dump(_plain(node))
    return found


def _plain(function):
    """Its tree with names by the order in which they appear; no docstring, annotation or text."""
    parts, names = list(ast.walk(function)), {}
    own = {part.arg for part in parts if isinstance(part, ast.arg)}
    own |= {part.name for part in parts if isinstance(part, ast.FunctionDef)}
    own |= {p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
    numbered = lambda name: names.setdefault(name, f"v{len(names)}") if name in own else name  # noqa: E731
    for part in parts:
        match part:
            case ast.FunctionDef():
                text = ast.get_docstring(part) is not None
                part.body = part.body[1:] or [ast.Pass()] if text else part.body
                part.name, part.returns, part.decorator_list = numbered(part.name), None, []
            case ast.arg():
                part.arg, part.annotation = numbered(part.arg), None
            case ast.Name():
                part.id, part.ctx = numbered(part.id), ast.Load()
            case ast.Constant(value=str()):
                part.value = ""
            case ast.JoinedStr():
                part.values = []
    return function


def alike(book: Gradebook, table) -> list[tuple[str, str, list[str]]]:
    """(lab, a fact, the students) of hand-ins that share functions, the most functions first."""
    facts = []
    for prefix, lab in labs().items():
        wanted = tasks_of(lab)
        shipped = fingerprints(lab.file("solution").read_bytes(), wanted)
        own, as_shipped = {}, {}
        for student in (s for s, row in table.items() if prefix in row):
            path = book.source(student, prefix)
            prints = fingerprints(path.read_bytes(), wanted) if path.exists() else {}
            same = tuple(name for name in prints if prints[name] == shipped.get(name))
            if same:
                as_shipped.setdefault(same, []).append(student)
            for name in prints.keys() - set(same):
                own.setdefault((name, prints[name]), []).append(student)
        pairs = {}
        for (name, _), who in own.items():
            if len(who) > 1:
                pairs.setdefault(tuple(who), []).append(name)
        for names, who in as_shipped.items():
            of = f"the shipped solution's: {len(names)} of {len(shipped)}"
            facts.append((len(names), prefix, f"{of}, {', '.join(sorted(names))}", who))
        for who, names in pairs.items():
            fact = f"each other's: {len(names)}, {', '.join(sorted(names))}"
            facts.append((len(names), prefix, fact, list(who)))
    return [tuple(fact[1:]) for fact in sorted(facts, key=lambda fact: (-fact[0], fact[1:]))]
