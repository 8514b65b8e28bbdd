"""Fields for what a page asks before it tells: a number, or one of a few answers.

    {{py: guess(share * 100, "%", ".0f")}}      behind a question with a number for an answer
    {{py: choose("rank 0; rank 1", 2)}}         behind one with a few; the second is right

src/widgets/lab-guess.js makes them fields; without scripts, and in print, they are nothing.
"""

from html import escape


def guess(truth: float, unit: str = "", spec: str = ",g", within: float = 1.5) -> str:
    """A field for a positive number; a guess is a hit within this factor of the truth."""
    if not (truth > 0 and within > 1):
        raise ValueError(f"guess: truth {truth} must be above 0, and within {within} above 1")
    shown = f"{truth:{spec}} {unit}".strip()
    facts = {"truth": repr(float(truth)), "unit": unit, "shown": shown, "within": f"{within:g}"}
    return _element(facts)


def choose(options: str, right: int) -> str:
    """A choice of `; `-separated answers, of which number `right`, from 1, is the right one."""
    offered = [option.strip() for option in options.split(";")]
    if not (1 <= right <= len(offered) and len(offered) > 1):
        raise ValueError(f"choose: there are {len(offered)} answers, and {right} is none of them")
    return _element({"options": ";".join(offered), "right": str(right)})


def _element(facts: dict[str, str]) -> str:
    words = " ".join(f'{name}="{escape(value, quote=True)}"' for name, value in facts.items())
    return f"<lab-guess {words}></lab-guess>"
