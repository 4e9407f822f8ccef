#!/usr/bin/env bash
# tools/gpuplan_export.py: what it writes has PyTorch's own counts of parameters, buffers and multiply-adds, to the unit
# (export_check.py), and plans to what PyTorch allocates under `gpuplan shadow` (export_shadow.py). A sample; every model of
# torchvision and the list of timm's where GPUPLAN_TORCH is "all". GPUPLAN names the program; the interpreter is
# python.bash's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
python_with 215 || { echo "torch 2.15: $reason"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

counted=(torchvision:{resnet18,densenet121,mobilenet_v3_small,shufflenet_v2_x0_5,googlenet,swin_t,maxvit_t,vit_b_32}
  segmentation:fcn_resnet50 timm:resnetv2_50 timm:deit_tiny_patch16_224)
if [ "${GPUPLAN_TORCH:-small}" = all ]; then counted=(torchvision segmentation backbone timm); fi
"$python" tests/torch/export_check.py --gpuplan "$gpuplan" --results "$work/counts" "${counted[@]}" || fail "counts"

for model in torchvision:resnet18 torchvision:swin_t torchvision:mnasnet0_5; do
  for options in "" "--infer"; do
    # shellcheck disable=SC2086
    "$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_shadow.py --gpuplan "$gpuplan" $options "$model" ||
      fail "$model $options"
  done
done

# Every call that the catalog lacks is named with its line, and nothing is written.
cat >"$work/unknown.py" <<'PYTHON'
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.linalg.svd(x)[0]
        return torch.fft.fft(y).real
PYTHON
(cd "$work" && "$python" "$OLDPWD/tools/gpuplan_export.py" unknown:Net --input 4x4 -o unknown.yaml) 2>"$work/errors" &&
  fail "a model of unknown calls is exported"
for line in 'unknown.py:4: svd' 'unknown.py:5: fft_fft'; do
  grep -q "$line" "$work/errors" || { fail "the error does not name $line"; cat "$work/errors"; }
done
[ ! -e "$work/unknown.yaml" ] || fail "a model of unknown calls leaves a file"
exit "$status"
