"""numpy is where numbers are arrays, and nowhere else: these labs run in a page, which has none."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LABS = ("lab-02", "lab-03", "lab-04", "lab-06", "capstone")
BLOCKED = """
import sys


class NoNumpy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NoNumpy())
import pytest

from labkit.loading import choose_lab, find_labs
from labkit.mistakes import read_bank

labs = [choose_lab(name, find_labs()) for name in sys.argv[1:]]
assert all(read_bank(lab).mistakes for lab in labs)  # the hints
sys.exit(pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]]))
"""


def test_labs_02_03_04_06_and_the_capstone_are_checked_without_numpy():
    """Their solutions pass all that this machine runs, but what asks for vLLM, which brings it."""
    environment = dict(os.environ, LAB_IMPL="solution", LAB_VLLM_PYTHON="none", LAB_TORCH="none")
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *LABS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and done.stdout.count("100/100 points") == 4


PLANNED = BLOCKED.partition("import pytest")[0] + "import place; sys.exit(place.main(sys.argv[1:]))"


@pytest.mark.parametrize("model", ["qwen2.5-72b", "deepseek-v3", "gpt-oss-120b"])
def test_the_planner_prints_the_same_without_numpy(model):
    """But for lab 05, which needs it: what its function counts is then a product."""
    options = f"--model {model} --gpu h100 --gpus 8 --nodes 2 --price 2 --pools --all".split()
    folder = next(ROOT.glob("phase-*/labs/capstone"))
    environment = dict(os.environ, LAB_IMPL="solution", PYTHONPATH=str(folder))
    screens = []
    for program in (["place.py"], ["-c", PLANNED]):
        command = [sys.executable, *program, *options]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        first, _, rest = done.stdout.partition("\n")
        assert ("05" in first) == (program == ["place.py"])
        screens.append(rest)
    assert screens[0] == screens[1]
