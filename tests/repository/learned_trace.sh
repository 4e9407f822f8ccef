#!/usr/bin/env bash
# gpuplan plan on traces of gpuplan shadow --learn, and what the two refuse, without PyTorch. $GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LANG=C.UTF-8
unset NO_COLOR CLICOLOR_FORCE LC_ALL LC_CTYPE PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
trace=tests/learned/resnet50.trace
status=0

# expect CODE PATTERN ARGUMENTS...: gpuplan's exit code, and a pattern in what it prints on either stream.
expect() {
  local code=$1 pattern=$2 actual
  shift 2
  timeout 60 "$gpuplan" "$@" >"$work/out" 2>&1 </dev/null
  actual=$?
  if [ "$actual" -ne "$code" ] || ! grep -qE -- "$pattern" "$work/out"; then
    echo "FAIL  gpuplan $*: exit $actual, not $code, or no '$pattern' in: $(head -n 4 "$work/out")"
    status=1
  fi
}

expect 0 'learned · batch=64 · NVIDIA H200' plan $trace --batch 64 --gpu h200
expect 0 '^  Peak +[0-9.]+ [GM]iB  in step' $trace --batch 64
expect 0 'batch=12 ' $trace
expect 0 'batch 64 is outside the recorded range, 4 to 12' plan $trace --batch 64
expect 0 '"schema": "gpuplan.plan.learned/1"' plan $trace --batch 64 --format json
expect 0 '^3,"backward",' plan $trace --batch 8 --format csv -q
expect 0 '^\| step ' plan $trace --batch 8 --format md -q
expect 0 '^  Largest +batch [1-9]' plan $trace --gpu t4
expect 1 '✖ does not fit' plan $trace --batch 64 --gpu '4 GiB'
expect 1 '^  Fails .* requested in' plan $trace --batch 64 --gpu '4 GiB'
expect 1 'warnings are treated as errors' plan $trace --batch 64 --strict
expect 0 'reserved' plan $trace --batch 64 --alloc-conf expandable_segments:True --runtime 0
expect 0 'batch=9' plan $trace --set batch=9

# A recording has one answer to these.
expect 2 '^error: --opt: a trace records one fixed run, with PyTorch .* by: python' plan $trace --opt sgd
expect 2 'record again with another command' plan $trace --precision bf16
expect 2 '^error: --checkpoint' plan $trace --checkpoint block
expect 2 '^error: --canonical: a trace has allocations, but no layers' plan $trace --canonical
expect 2 '^error: --seq: the trace varies only batch$' plan $trace --seq 128
expect 2 'set twice' plan $trace --batch 8 --set batch=9
expect 2 '--batch expects a whole number' plan $trace --batch 0
expect 3 'batch=1000000000000: ' plan $trace --batch 1000000000000
expect 2 'it has allocations, but no layers' layers $trace
expect 2 'it has allocations, but no layers' validate $trace
expect 2 'it has allocations, but no layers' explain $trace

# Damaged files.
head -c 20000 $trace >"$work/cut.trace"
expect 3 '--> .*cut.trace:[0-9]+' plan "$work/cut.trace" --batch 64
head -n 500 $trace >"$work/cut.trace"
expect 3 'is cut short' plan "$work/cut.trace" --batch 64
echo 'gpuplan-trace: 1' >"$work/empty.trace"
expect 3 'has no line "run:' plan "$work/empty.trace"
echo 'gpuplan-trace: 2' >"$work/later.trace"
expect 3 'begins with "gpuplan-trace: 1"' plan "$work/later.trace"

# --learn: before anything runs.
if [ -e "$(dirname "$gpuplan")/shadow/libgpuplan_shadow.so" ]; then
  learn=(shadow --gpu t4 --learn "$work/t.trace")
  expect 2 'needs to know what varies' "${learn[@]}" -- true
  expect 2 '--vary needs --learn FILE' shadow --gpu t4 --vary batch=4,8,12 -- true '{batch}'
  expect 2 'needs at least three values' "${learn[@]}" --vary batch=4,8 -- true '{batch}'
  expect 2 '8 appears twice' "${learn[@]}" --vary batch=8,4,8 -- true '{batch}'
  expect 2 'expects a whole number' "${learn[@]}" --vary batch=0,4,8 -- true '{batch}'
  expect 2 'expects a whole number' "${learn[@]}" --vary batch=four,4,8 -- true '{batch}'
  expect 2 'expects NAME=VALUE' "${learn[@]}" --vary 4,8,12 -- true '{batch}'
  expect 2 'the command does not contain \{batch\}' "${learn[@]}" --vary batch=4,8,12 -- true 8
  expect 2 'given twice' "${learn[@]}" --vary n=4,8,12 --vary n=1,2,3 -- true '{n}'
  expect 2 'at most two' "${learn[@]}" --vary a=4,8,12 --vary b=1,2,3 --vary c=1,2,3 -- true '{a}{b}{c}'
  expect 2 '--gpus and --learn' "${learn[@]}" --gpus 2 --vary n=4,8,12 -- true '{n}'
  expect 4 'cannot be written there' shadow --gpu t4 --learn "$work/absent/t.trace" --vary n=4,8,12 -- true '{n}'
  # A command that fails at one value, and one that uses no GPU.
  expect 7 'n=4: the command ended with exit code 7; nothing is learned' "${learn[@]}" --vary n=4,8,12 -- \
    sh -c 'exec python3 -c "import ctypes, sys
cuda = ctypes.CDLL(None)
cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(4096))
sys.exit(7)" {n}'
  expect 4 'n=4: the command used no GPU memory' "${learn[@]}" --vary n=4,8,12 -- true '{n}'
  [ ! -e "$work/t.trace" ] || { echo "FAIL  a trace was written of nothing"; status=1; }
fi
exit $status
