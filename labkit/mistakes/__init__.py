"""Plausible wrong implementations: what rejects each (python -m labkit.mistakes), and the hints."""

from labkit.mistakes.bank import Bank, Mistake, find_hint, load_bank, outcome_of, read_bank

__all__ = ["Bank", "Mistake", "find_hint", "load_bank", "outcome_of", "read_bank"]
