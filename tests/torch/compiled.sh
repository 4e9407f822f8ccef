#!/usr/bin/env bash
# Compiled training steps under `gpuplan shadow`, equal to the byte with tests/shadow_compiled/compiled.h100.torch2.15.tsv:
# three of them, every one where GPUPLAN_TORCH is "all"; and programs that end while they compile, which leave their
# figures, no process and no folder behind. GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "$reason"; exit 77; }
gpuplan=${GPUPLAN:-build/gpuplan}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# ended HOW CODE WORDS: the exit code, and what the report says.
ended() {
  local code=0 left
  mkdir -p "$work/$1"
  TMPDIR=$work/$1 "$gpuplan" shadow --gpu l4 -- "$python" tests/shadow_compiled/ended.py "$1" >"$work/out" 2>&1 || code=$?
  [ "$code" -eq "$2" ] || { echo "FAIL  $1: exit $code, not $2"; cat "$work/out"; status=1; }
  grep -q -- "$3" "$work/out" || { echo "FAIL  $1: no '$3'"; cat "$work/out"; status=1; }
  sleep 1 # Inductor's processes look every second whether their parent is alive
  [ -z "$(ls "$work/$1")" ] || { echo "FAIL  $1 left $(ls "$work/$1")"; status=1; }
  left=$(grep -ls "TMPDIR=$work/$1" /proc/[0-9]*/environ)
  [ -z "$left" ] || { echo "FAIL  $1 left $left"; status=1; }
}
ended kill 137 '^  Needs .* until it ended early'
ended term 143 '^  ended by SIGTERM'
ended fork 0 '^  compiled  1 graph, 0 breaks'

cases=(gpt.default.bf16 mlp.reduce-overhead.fp32 mlp.max-autotune.bf16)
[ "${GPUPLAN_TORCH:-small}" != all ] || cases=()
"$python" tests/shadow_compiled/record.py --gpuplan "$gpuplan" "${cases[@]}" && exit "$status"
