#!/usr/bin/env bash
# The Python hook of `gpuplan shadow`, without torch.
set -uo pipefail
cd "$(dirname "$0")/../.."
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 tests/shadow_hook/test_hook.py
