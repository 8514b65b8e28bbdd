#!/usr/bin/env bash
# Train every mode, compare, draw: ./run_profile.sh [--ranks 4] [--link simulated:1gbit] [--out DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" -m tensor_parallel_toy profile "$@"
