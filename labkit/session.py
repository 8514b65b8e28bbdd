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
        self.hinted = set()  # (lab, test name) whose failure was compared
        self.ran_apart = {}  # node id of a check that was not selected -> what it raised, or None
        self.left_out = ""
        self.calls_to_show = {}  # of failed checks, by their name, with --call

    def lab_of(self, item):
        return self.by_folder.get(item.path.parent)

    def is_check(self, item):
        return item.path.parent in self.by_folder and item.path.name == "test_lab.py"
