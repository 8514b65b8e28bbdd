"""What one pytest session shares, for labkit's plugin and for those that join its session."""

import pytest

STATE = pytest.StashKey()
RECORDER = pytest.StashKey()


class State:
    """What one session shares: the chosen implementation and each lab's loaded file."""

    def __init__(self, which, labs):
        self.which = which
        self.by_folder = {lab.path: lab for lab in labs}
        self.implementations = {}
        self.items = []  # all that were collected, also those not selected
        self.out_of_time = set()  # (lab, test name)
        self.hints = True  # whether a failure is compared with the known mistakes
        self.left_out = ""

    def lab_of(self, item):
        return self.by_folder.get(item.path.parent)

    def is_check(self, item):
        return item.path.parent in self.by_folder and item.path.name == "test_lab.py"
