"""Recorded runs with one thing wrong each, and the programs that record and replay them."""
