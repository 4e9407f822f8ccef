#!/usr/bin/env bash
# Where protobuf or ONNX's schema is not found, gpuplan is built without them: what answers an ONNX file then compiles.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=${CXX:-}
for name in g++-12 g++ clang++; do [ -n "$compiler" ] || compiler=$(command -v "$name" || true); done
[ -n "$compiler" ] || { echo "no C++ compiler"; exit 77; }
"$compiler" -std=c++20 -I. -Wall -Wextra -Werror -UGPUPLAN_READS_ONNX -fsyntax-only tools/importers/onnx.cpp
