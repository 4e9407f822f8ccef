#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses. Those of the last day's commits and of the working tree, or all
# of them where GPUPLAN_ALL is set.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=${CXX:-}
for name in g++-12 g++ clang++; do [ -n "$compiler" ] || compiler=$(command -v "$name" || true); done
[ -n "$compiler" ] || { echo "no C++ compiler"; exit 77; }
headers() {
  if [ -n "${GPUPLAN_ALL:-}" ]; then
    git ls-files '*.h'
  else
    git log --since="@$(($(git log -1 --format=%ct) - 86400))" --name-only --format= -- '*.h'
    git diff HEAD --name-only -- '*.h'
  fi | sort -u | while IFS= read -r header; do if [ -f "$header" ]; then printf '%s\0' "$header"; fi; done
}
# Included, not compiled as a main file, where `#pragma once` would be a warning.
headers | xargs -0 -r -P "$(nproc)" -I {} \
  "$compiler" -std=c++20 -I. -Iinclude -Wall -Wextra -DGPUPLAN_SOURCE_DIR='"."' -DGPUPLAN_VERSION='"0"' -fsyntax-only \
  -include {} -x c++ /dev/null
