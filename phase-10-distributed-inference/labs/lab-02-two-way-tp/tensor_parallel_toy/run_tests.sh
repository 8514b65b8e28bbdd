#!/usr/bin/env bash
# The equality suite on 1, 2 and 4 ranks and the bank of mistakes: ./run_tests.sh [--backend gloo]
set -euo pipefail
cd "$(dirname "$0")/.."
for ranks in 1 2 4; do
    "${PYTHON:-python3}" -m tensor_parallel_toy test --ranks "$ranks" "$@"
done
"${PYTHON:-python3}" -m tensor_parallel_toy mistakes "$@"
