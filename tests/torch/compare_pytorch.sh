#!/usr/bin/env bash
# tests/recorders/compare_pytorch.py under `gpuplan shadow`: what is predicted equals what PyTorch allocates, and its
# recordings are those that the scoreboard replays. GPUPLAN names the program; the interpreter is python.bash's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
python_with 215 || { echo "torch 2.15: $reason"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

fail() {
  echo "FAIL  $1"
  sed 's/^/      /' "$work/out" "$work/err"
  status=1
}

# compare CODE ARGUMENTS...
compare() {
  local code=$1 actual=0
  shift
  "$gpuplan" shadow --gpu h200 -q -- "$python" tests/recorders/compare_pytorch.py --gpuplan "$gpuplan" "$@" \
    >"$work/out" 2>"$work/err" </dev/null || actual=$?
  [ "$actual" -eq "$code" ] || fail "compare_pytorch.py $*: exit $actual, not $code"
}

recorded=tests/shadow/compare_pytorch/h200
compare 0 mlp --batch 128 --opt adam --tolerance 0 --record "$work/recorded"
grep -q 'peak allocated .*+0.00 %' "$work/out" || fail "the peak of mlp"
compare 0 resnet50 --batch 8 --opt momentum --amp bf16 --layout nhwc --loop function --tolerance 0 --record "$work/recorded"
PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4 compare 0 mlp --batch 100 --opt adam --tolerance 0
# The plan of another GPU, whose workspaces are smaller, is not this one's.
compare 1 mlp --batch 100 --opt adam --tolerance 0 --gpu t4
compare 2 no_such_model
compare 2 mlp --seq 5
compare 4 mlp --gpuplan /nonexistent/gpuplan

# The committed recording has the same figures, where torch is the one it was made with.
python3 - "$recorded" "$work/recorded" <<'PYTHON' || fail "the recording is as it was"
import json, pathlib, sys
was, now = (pathlib.Path(p) for p in sys.argv[1:])
versions = [json.loads((p / "env.json").read_text()) for p in (was, now)]
assert not versions[1]["computes"] and "no GPU" in versions[1]["gpu"], versions[1]
if any(versions[0][k] != versions[1][k] for k in ("torch", "cudnn", "torchvision")):
    sys.exit(0)
of = [{r["model"]: r for r in json.loads((p / "models.json").read_text())} for p in (was, now)]
for model, run in of[1].items():
    assert run == of[0][model], "%s: %s is not %s" % (model, run, of[0][model])
PYTHON
exit "$status"
