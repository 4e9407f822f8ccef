#!/usr/bin/env bash
# gpuplan as a C++ library: a program is built with find_package(gpuplan) of an installation, and configured with a
# checkout through FetchContent (built too where GPUPLAN_ALL is set, which takes minutes).
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
command -v cmake >/dev/null || { echo "no cmake"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CXX=${CXX:-$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/CMakeCache.txt)}
quietly() { "$@" >"$work/log" 2>&1 || { echo "FAIL  $*"; tail -n 30 "$work/log"; exit 1; }; }
quietly tools/build release gpuplan gpuplan_library gpuplan_shadow_libraries
quietly cmake --install build --component library --prefix "$work/prefix"
quietly cmake -S tests/consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix"
quietly cmake --build "$work/consumer"
status=0
# expect CODE PATTERN ARGUMENTS...
expect() {
  local code=$1 pattern=$2 actual
  shift 2
  (cd "$work" && "$work/consumer/largest_batch" "$@") >"$work/answer" 2>&1
  actual=$?
  [ "$actual" -eq "$code" ] && grep -qE -- "$pattern" "$work/answer" || { echo "FAIL  largest_batch $*: $(cat "$work/answer")"; status=1; }
}
expect 0 "^gpuplan 0\.1: a batch of $(build/gpuplan fit zoo:resnet50 --opt adam --amp bf16 --on l4 --format json | python3 -c '
import json, sys
print(1 << (json.load(sys.stdin)["gpus"][0]["largest"]["batch"].bit_length() - 1))') fits$" zoo:resnet50 l4
expect 1 'error: .*did you mean "resnet50"' zoo:resnet5 l4
expect 1 'broken.yaml:4:5' "$root/tests/python_package/broken.yaml" l4
quietly cmake -S tests/consumer -B "$work/fetched" -DGPUPLAN_SOURCE_DIR="$root"
[ -z "${GPUPLAN_ALL:-}" ] || quietly cmake --build "$work/fetched" --parallel 2
exit $status
