#!/usr/bin/env bash
# README.md shows what its commands print.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -f README.md ] || { echo "there is no README.md"; exit 77; }
GPUPLAN=${GPUPLAN:-build/gpuplan} tools/readme --check
