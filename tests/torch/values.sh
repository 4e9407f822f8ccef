#!/usr/bin/env bash
# Values under `gpuplan shadow`: what is known is what a CPU computes (tests/shadow_values/known.py), and computing it
# changes no figure of a run that does not look at values. GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "$reason"; exit 77; }
gpuplan=${GPUPLAN:-build/gpuplan}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() {
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $1"; diff <(echo "$2") <(echo "$3") | head -n 20; fi
}

"$python" tests/shadow_values/known.py cpu >"$work/cpu" || exit
for seed in 0 1; do
  "$gpuplan" shadow -q --gpu t4 --seed $seed -- "$python" tests/shadow_values/known.py cuda >"$work/shadow" 2>"$work/err" || cat "$work/err"
  check "known values, seed $seed" "$(cat "$work/cpu")" "$(cat "$work/shadow")"
done

check 'the rules name functions of torch' '' "$("$python" tests/shadow_values/names.py validate/shadow/python)"

routed() { "$gpuplan" shadow -q --gpu t4 --routing "$1" -- "$python" tests/shadow_values/router.py; }
all='[16, 16, 16, 16, 16, 16, 16, 16]' two='[64, 64, 0, 0, 0, 0, 0, 0]'
check 'balanced routing' "$all"$'\n'"$all" "$(routed balanced)"
check 'the worst routing' "$two"$'\n'"$two" "$(routed worst)"
check 'drawn routing' 2 "$(routed drawn | sort -u | grep -cv '\[16, 16, 16, 16, 16')"

figures() {
  "$gpuplan" shadow --gpu h100 --values "$1" --format json -- "$python" tests/shadow_compiled/step.py "${@:2}" 2>/dev/null |
    "$python" -c 'import json, sys; r = json.load(sys.stdin); print(r["peak"], r["segments"], r["kernels"], r["graph_bytes"])'
}
for case in 'gpt eager bf16' 'bert eager fp32' 'llama default bf16' 'resnet18 eager bf16'; do
  # shellcheck disable=SC2086
  check "$case is the same with values" "$(figures off $case)" "$(figures 262144 $case)"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
