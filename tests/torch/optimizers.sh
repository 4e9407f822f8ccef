#!/usr/bin/env bash
# Optimizers that gpuplan has no rules of, with PyTorch: recorded for a model's parameters, their plans equal the steps of tests/recorded/optimizers;
# and how their words are read. With GPUPLAN_TORCH=all every run, which wants the optimizers' packages. GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "torch 2.15: $reason"; exit 77; }
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache PYTHONPATH=$PWD/tools/python
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
ran() { # what python printed: a line a check
  passed=$((passed + $(grep -c ': equal$\|^ok ' "$work/out")))
  if grep -v ': equal$\|^ok ' "$work/out"; then failed=$((failed + 1)); fi
}
words=()
[ "${GPUPLAN_TORCH:-}" = all ] || words=(muon:matrices,adamw:rest asgd transformers_adafactor)
if [ ${#words[@]} -eq 0 ]; then
  "$python" tests/recorders/fine_tuning.py --optimizers --recorded --gpuplan "$gpuplan" >"$work/out" 2>"$work/errors"
  ran
fi
for word in "${words[@]}"; do
  "$python" tests/recorders/fine_tuning.py --optimizers --recorded --gpuplan "$gpuplan" --only "gpt2 --opt $word" >"$work/out" 2>"$work/errors"
  ran
done
"$python" tests/torch/optimizer_words.py >"$work/out" 2>&1
ran
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
