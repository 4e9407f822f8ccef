#!/usr/bin/env bash
# Every file of layers/ is in the generated catalog, under the function that it must define.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=${GPUPLAN_BUILD:?the build directory}/layers/catalog.cpp
for file in layers/*.cpp; do
  name=$(basename "$file" .cpp)
  grep -q "layers::${name}_layers()" "$list" || { echo "$file is not in $list"; exit 1; }
done
