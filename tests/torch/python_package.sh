#!/usr/bin/env bash
# The package gpuplan with PyTorch: its own tests; Hugging Face's Trainer, whose plan is what its run takes under
# `gpuplan shadow` but for a few small numbers that it keeps; and the pytest plugin. GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "$reason"; exit 77; }
GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
export GPUPLAN
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $name"; tail -n 20 "$work/out"; fi
}

check "the package's tests" "$python" tests/python_package/test_package.py

equal() { # SETTINGS
  local planned run
  planned=$("$python" tests/python_package/trainer.py plan l4 "$1" 2>"$work/err" | tail -n 1)
  run=$("$GPUPLAN" shadow -q --gpu l4 -- "$python" tests/python_package/trainer.py train "$1" 2>>"$work/err" | grep -E '^[0-9]+$')
  echo "$1: $planned planned, $run run"
  [ -n "$planned" ] && [ "$planned" = "$run" ] || { cat "$work/err"; return 1; }
}
for settings in '{}' '{"bf16": true, "gradient_accumulation_steps": 4}' '{"gradient_checkpointing": true}' '{"optim": "sgd"}'; do
  check "Trainer $settings" equal "$settings"
done

limits() {
  "$python" -m pytest --version >/dev/null 2>&1 || "$python" -m pip install --quiet --target "$work/pytest" pytest || return
  PYTHONPATH=tools/python:$work/pytest "$python" -m pytest -q -p gpuplan.pytest_plugin --gpuplan -W ignore tests/python_package/limited.py >"$work/pytest.log" 2>&1
  cat "$work/pytest.log"
  grep -q '1 failed, 1 passed' "$work/pytest.log" && grep -q 'more than 1 MiB' "$work/pytest.log" &&
    grep -qE 'limited.py:14 +torch.nn.Linear' "$work/pytest.log" && grep -qE 'test_small +l4 +peak' "$work/pytest.log"
}
check "limit_gpu_memory" limits
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
