#!/usr/bin/env bash
# Gradescope runs this once, when the autograder's image is built. The zip file that you upload holds
# this file, run_autograder, the course in a folder `course`, and LAB: a file with a line such as 01.
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  bubblewrap python3 python3-pip python3-venv
python3 -m venv /opt/grading
/opt/grading/bin/python -m pip install -q "pip>=25.1"
/opt/grading/bin/python -m pip install -q --group /autograder/source/course/pyproject.toml:grading
