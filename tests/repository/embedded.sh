#!/usr/bin/env bash
# Every model and GPU file is embedded, with all its bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
for folder in models gpus; do
  list=${GPUPLAN_BUILD:?the build directory}/configs/embedded_$folder.cpp
  for file in configs/$folder/*.yaml; do
    [ -f "$file" ] || continue
    name=$(basename "$file" .yaml)
    size=$(wc -c <"$file")
    grep -A 100000 -F "\"configs/$folder/$name.yaml\"" "$list" | grep -m 1 -qE "\", $size}}," ||
      { echo "$file: $size bytes are not in $list"; exit 1; }
  done
done
