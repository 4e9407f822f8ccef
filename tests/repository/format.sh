#!/usr/bin/env bash
# Every C++ file is as .clang-format says.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v clang-format >/dev/null || { echo "no clang-format"; exit 77; }
major=$(clang-format --version | sed -nE 's/.*version ([0-9]+).*/\1/p')
# Versions differ in details; CI has 14.
[ "$major" = 14 ] || { echo "clang-format is $major, the files are formatted with 14"; exit 77; }
if ! output=$(git ls-files -z '*.h' '*.cpp' '*.cu' | xargs -0 -r clang-format --dry-run -Werror 2>&1); then
  grep -oE '^[^: ]+:[0-9]+' <<<"$output" | sort -t: -k1,1 -k2,2n -u
  echo "clang-format -i FILE"
  exit 1
fi
