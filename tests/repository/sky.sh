#!/usr/bin/env bash
# Tasks of `gpuplan fit --emit sky` read by SkyPilot itself, which checks them against its schema and its rules of each
# cloud, and chooses (sky_task.py). Nothing is rented or downloaded. $GPUPLAN is the binary; GPUPLAN_SKY_PYTHON a Python
# with skypilot[aws,gcp] and setuptools.
set -euo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
python=${GPUPLAN_SKY_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work
"$python" -c 'import importlib.util as u, sys; sys.exit(0 if u.find_spec("sky") else 1)' ||
  { echo "no SkyPilot: GPUPLAN_SKY_PYTHON names a Python that has it"; exit 77; }

"$gpuplan" instances --format csv >"$work/instances.csv" 2>/dev/null
fit() {
  local name=$1
  shift
  "$gpuplan" fit "$@" --emit sky >"$work/$name.yaml"
}
fit zoo zoo:resnet50 --opt adam --on t4,l4,a100-40g
for provider in aws gcp azure oci runpod vast; do
  fit "$provider" zoo:resnet50 --opt adam --provider "$provider" --batch 32
  fit "$provider-spot" zoo:resnet50 --opt adam --provider "$provider" --batch 32 --spot 2>/dev/null || rm -f "$work/$provider-spot.yaml"
done
odd="$work/it's a \"net\" \$(id) é #.yaml"
sed 's/^name: .*/name: "m l\/p # é: {}"/' configs/models/mlp.yaml >"$odd"
fit odd "$odd" --on t4 --batch 8
"$python" tests/repository/sky_task.py "$work/instances.csv" "$work"/{zoo,odd}.yaml "$work"/{aws,gcp,azure,oci,runpod,vast}*.yaml \
  >"$work/out" 2>&1 || { grep -v '^<sky-payload>' "$work/out"; exit 1; }
grep -c ' choices, first ' "$work/out"
