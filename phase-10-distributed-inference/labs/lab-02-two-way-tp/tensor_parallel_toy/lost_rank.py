"""What a rank says when the others do not do what it does: one sentence."""

import re


class LostRank(ConnectionError):
    """A rank did not come, or came with something else; the message says which."""


def agree(tp, key, operation):
    """Tell all ranks, under `key` of the store, what this one is about to do; LostRank if one
    does not come to it in time, or comes to something else."""
    tp.store.set(f"{key}/{tp.rank}", operation)
    for peer in range(tp.size):
        try:
            other = tp.store.get(f"{key}/{peer}").decode()
        except RuntimeError:
            raise LostRank(
                f"rank {peer} did not come to {operation} within "
                f"{tp.timeout_s:g} s: it is dead or does something else"
            ) from None
        if other != operation:
            raise LostRank(
                f"is at {operation}, but rank {peer} is at {other}: all ranks must "
                "run the same layers on the same shapes"
            )


def explain(error, timeout_s):
    """One line for any error of a distributed run; torch's are told by their words."""
    text = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and re.search(r"[Tt]imed out|[Tt]imeout", text):
        return (
            f"waited {timeout_s:g} s for the other ranks: one is dead, or takes part in "
            f"another operation" + _where(error)
        )
    if isinstance(error, RuntimeError) and re.search(r"[Cc]onnection|peer|reset", text):
        return "lost the connection to another rank, which must have died" + _where(error)
    if isinstance(error, (ValueError, LostRank)):
        return text + _where(error)
    return f"{type(error).__name__}: {text}"


def _where(error):
    notes = getattr(error, "__notes__", [])
    return f" ({notes[0]})" if notes else ""
