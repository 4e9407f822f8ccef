#!/usr/bin/env bash
# The Python hook of `gpuplan shadow` beside PyTorch: the script reads what it reads without the hook, and is ended where
# that is asked for. GPUPLAN names the program; the interpreters are those of python.bash.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0 tried=0

fail() {
  echo "FAIL  torch $version: $1"
  status=1
}

# shadow CODE OPTIONS... -- COMMAND...: standard output to $work/out, the report to $work/report.json.
shadow() {
  local code=$1 actual=0
  shift
  "$gpuplan" shadow --gpu h200 -o "$work/report.json" "$@" >"$work/out" 2>"$work/err" </dev/null || actual=$?
  [ "$actual" -eq "$code" ] || fail "$*: exit $actual, not $code: $(tail -n 2 "$work/err")"
}

# steps N: the report has N optimizer steps.
steps() {
  local found
  found=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["steps"]))' "$work/report.json")
  [ "$found" = "$1" ] || fail "$found steps in the report, not $1"
}

for version in 2.15 2.8; do
  python_with "${version/./}" || { echo "skip  torch $version: $reason"; continue; }
  tried=$((tried + 1))

  shadow 0 -- "$python" -E tests/shadow_hook/memory_statistics.py # -E: without PYTHONPATH there is no hook
  grep "{" "$work/out" >"$work/without"
  shadow 0 -- "$python" tests/shadow_hook/memory_statistics.py
  grep '{' "$work/out" | cmp -s - "$work/without" || fail "the script reads other statistics with the hook"
  [ -s "$work/without" ] || fail "no statistics"

  shadow 0 --steps 3 -- "$python" tests/shadow_hook/loop.py eager
  steps 3
  grep -q '^finally' "$work/out" && grep -q '^exit handler' "$work/out" || fail "--steps did not end the script cleanly"
  shadow 0 --until-stable -- "$python" tests/shadow_hook/loop.py eager
  steps 4 # the second has the optimizer's state, the third and fourth are like it
  shadow 0 --steps 3 -- "$python" tests/shadow_hook/loop.py inductor
  steps 3
  grep -qE '^  compiled  1 graph, 0 breaks' "$work/err" || fail "torch.compile: $(grep compiled "$work/err")"
  grep -q 'loop.py:10 in <module>' "$work/err" || fail "torch.compile: the lines are not those of the script"
  shadow 0 --no-compile -- "$python" tests/shadow_hook/loop.py inductor
  grep -q '^finished' "$work/out" || fail "--no-compile: the script did not finish"
  shadow 0 --steps 2 --snapshot "$work/memory.pickle" -- "$python" tests/shadow_hook/loop.py eager
  "$python" -c 'import pickle, sys; assert pickle.load(open(sys.argv[1], "rb"))["device_traces"][0]' \
    "$work/memory.pickle" || fail "--snapshot: no record in the file"
  shadow 0 -- "$python" tests/shadow_hook/children.py
  grep -qE '^  Peak +60.0 MiB' "$work/err" && grep -qE '^  \+ runtime +512 MiB' "$work/err" ||
    fail "children that leave by os._exit: $(grep -E 'Peak|runtime' "$work/err")"
  echo "done  torch $version"
done
# zoo.sh's packages, or the system's.
for python in build-torch/bin/python /usr/bin/python3; do
  version=$("$python" -c 'import torch; assert not torch.version.cuda; print(torch.__version__)' 2>/dev/null) || continue
  tried=$((tried + 1))
  shadow 4 -- "$python" tests/shadow_hook/loop.py eager
  grep -q "torch $version has no CUDA in it; install the CUDA build: pip install torch" "$work/err" ||
    fail "a torch for the CPU is not told so: $(tail -n 1 "$work/err")"
  echo "done  torch $version for the CPU"
done
[ "$tried" -gt 0 ] || { echo "$reason"; exit 77; }
exit "$status"
