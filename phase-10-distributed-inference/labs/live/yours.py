"""What a live run did, beside what the learner's functions say of it: rows of one page."""

import contextlib
import json
import re
import textwrap
import time
from dataclasses import dataclass


@dataclass
class Row:
    """One fact of the page, live and by the learner's function: both numbers, or both words."""

    what: str
    live: object
    yours: object  # None: not written yet
    function: str

    @property
    def agrees(self):
        return self.yours is None or self.yours == self.live

    def line(self):
        residual, wrong = "-", "" if self.agrees else f"  <- {self.function}"
        if self.yours is not None:
            words = isinstance(self.live, str)
            residual = ("0" if self.agrees else "") if words else f"{self.live - self.yours:,}"
        return f"  {self.what:44}{told(self.live):>12}{told(self.yours):>14}{residual:>10}{wrong}"


def told(value):
    """A fact as a word: `-` for none, numbers with commas."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:,}"


class Yours:
    """Calls the learner's functions; remembers which are not written, and what others raised."""

    def __init__(self, *labs):
        self.labs, self.open, self.raised = labs, {}, {}

    def ask(self, function, *arguments, key=None):
        """The result, or result[key]; None where there is none.

        function: its name, or a given one that calls some of the learner's.
        """
        name = getattr(function, "__name__", function)
        try:
            called = function if callable(function) else self._written(function)
            result = called(*arguments)
            return result if key is None else result[key]
        except NotImplementedError as error:
            unwritten = re.search(r"([\w-]+) · (\w+) is yours", str(error))
            lab, name = unwritten.groups() if unwritten else ("", name)
            self.open[name] = lab
        except Exception as error:
            self.raised[name] = f"{name}: {type(error).__name__}: {error}"
        return None

    def _written(self, name):
        for lab in self.labs[:-1]:
            with contextlib.suppress(AssertionError, AttributeError):  # it is of another lab
                return getattr(lab, name)
        return getattr(self.labs[-1], name)


def table(title, rows):
    """The lines of some rows, under a title and the columns' names."""
    return ["", f"{title:46}{'live':>12}{'yours':>14}{'residual':>10}", *(r.line() for r in rows)]


def verdict(rows, yours, claim):
    """(the page's last lines, whether all rows agree); a wrong function is named once."""
    wrong = [row for row in rows if not row.agrees]
    agree = not wrong and not yours.raised
    if yours.open:
        several = len(set(yours.open.values())) > 1
        names = [f"{name} ({lab})" if several else name for name, lab in yours.open.items()]
        lines = textwrap.wrap(f"not written yet: {', '.join(names)}", 88)
    else:
        lines = [f"{said(agree)}  {claim}"]
    first = {row.function: row for row in reversed(wrong)}
    for function, row in first.items():
        both = f"yours {told(row.yours)}, live {told(row.live)}"
        lines.append(f"       {function}: {both} ({row.what.strip()})")
    return [*lines, *(f"       {text}" for text in yours.raised.values())], agree


def ended(options, began, measured, agrees):
    """Print how long the page took and write the file of --json; the program's exit status."""
    how = "recorded earlier" if options.recorded else f"{time.monotonic() - began:.1f} s"
    print(f"whole run {how}")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    return 0 if agrees else 1


def said(agrees):
    return "  yes" if agrees else "  NO "
