#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=${CXX:-}
for name in g++-12 g++ clang++; do [ -n "$compiler" ] || compiler=$(command -v "$name" || true); done
[ -n "$compiler" ] || { echo "no C++ compiler"; exit 77; }
git ls-files -z '*.h' | xargs -0 -r -n 1 -P "$(nproc)" \
  "$compiler" -std=c++20 -I. -Wall -Wextra -Wno-pragma-once-outside-header -fsyntax-only -x c++
