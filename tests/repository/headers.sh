#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=${CXX:-}
for name in g++-12 g++ clang++; do [ -n "$compiler" ] || compiler=$(command -v "$name" || true); done
[ -n "$compiler" ] || { echo "no C++ compiler"; exit 77; }
# Included, not compiled as a main file, where `#pragma once` would be a warning.
git ls-files -z '*.h' | xargs -0 -r -P "$(nproc)" -I {} \
  "$compiler" -std=c++20 -I. -Wall -Wextra -DGPUPLAN_SOURCE_DIR='"."' -DGPUPLAN_VERSION='"0"' -fsyntax-only \
  -include {} -x c++ /dev/null
