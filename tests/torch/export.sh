#!/usr/bin/env bash
# tools/python/gpuplan: what it writes has PyTorch's own counts of parameters, buffers and multiply-adds, to the unit
# (export_check.py), and plans to what PyTorch allocates under `gpuplan shadow` (export_shadow.py, export_record.py) and to what
# the zoo's specs do (export_zoo.py), and what is no layer is followed or refused (export_hostile.py). A sample; every model of
# torchvision and the list of timm's where GPUPLAN_TORCH is "all". GPUPLAN names the program; the interpreter is
# python.bash's, and those of older releases that its variables name take a smaller sample.
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
  segmentation:fcn_resnet50 timm:resnetv2_50 timm:deit_tiny_patch16_224 torchvision:swin_v2_t
  backbone:fasterrcnn_mobilenet_v3_large_320_fpn timm:{efficientvit_m0,convnextv2_femto})
if [ "${GPUPLAN_TORCH:-small}" = all ]; then counted=(torchvision segmentation backbone timm); fi
"$python" tests/torch/export_check.py --gpuplan "$gpuplan" --results "$work/counts" "${counted[@]}" || fail "counts"

for model in torchvision:resnet18 torchvision:swin_t torchvision:mnasnet0_5; do
  for options in "" "--infer"; do
    # shellcheck disable=SC2086
    "$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_shadow.py --gpuplan "$gpuplan" $options "$model" ||
      fail "$model $options"
  done
done

# Models that run otherwise in eval mode, and losses of several outputs.
modes=(nested functional googlenet levit_128s)
if [ "${GPUPLAN_TORCH:-small}" = all ]; then modes=(); fi
"$gpuplan" shadow --gpu h200 --scratch no-cudnn -q -- "$python" tests/torch/export_modes.py --gpuplan "$gpuplan" \
  --scratch no-cudnn "${modes[@]}" || fail "train and eval mode"

# Export, import, plan.
"$python" tests/torch/export_round_trip.py --gpuplan "$gpuplan" || fail "the round trip"

# Operators one at a time.
operators=(index_two add_to_part zero_part amax fold bicubic attention_of_one_key_head float_weight type_by_name clamp_to_one matrix_of_weights)
if [ "${GPUPLAN_TORCH:-small}" = all ]; then operators=(); fi
"$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_operators.py --gpuplan "$gpuplan" "${operators[@]}" ||
  fail "operators"

# What the zoo has too plans to the same bytes.
zoo=(resnet18 swin_t distilbert t5_small)
if [ "${GPUPLAN_TORCH:-small}" = all ]; then zoo=(); fi
"$python" tests/torch/export_zoo.py --gpuplan "$gpuplan" "${zoo[@]}" || fail "the zoo's models"
# Every case that is recorded in tests/shadow and tests/oracle.
cases=(mlp unet_small toy_mul_mean ex1_linear_chain bert_encoder nasty_splits)
if [ "${GPUPLAN_TORCH:-small}" = all ]; then cases=(); fi
"$python" tests/torch/export_cases.py --gpuplan "$gpuplan" "${cases[@]}" || fail "the recorded cases"

# In this way a step is recorded for tests/exported.
"$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_record.py --runs "$work/runs.tsv" --specs "$work" \
  torchvision:mnasnet0_5 || fail "recording"
for run in $'\ttrain\tadam\t8' $'\tinfer\t-\t16'; do
  diff <(grep -F "torchvision.mnasnet0_5	h200	full$run" tests/exported/h200.tsv) <(grep -F "$run" "$work/runs.tsv") ||
    fail "torchvision:mnasnet0_5 is recorded otherwise"
done
cmp tests/exported/specs/torchvision.mnasnet0_5.yaml "$work/torchvision.mnasnet0_5.yaml" || fail "its spec is another one"

# Layers written by hand, whose specs tests/exported has.
"$python" tests/torch/export_record.py --specs "$work" written:{norm_of_copy,norm_by_name,norm_of_function,norm_of_copies,erf} \
  written:{response_norm,unit_rows,groups_without_bias,mean_of_losses} || fail "specs of layers written by hand"
for spec in tests/exported/specs/written.*.yaml; do
  cmp "$spec" "$work/${spec##*/}" || fail "$spec is another one"
done

# The model's own loss, whether it is named or not.
PYTHONPATH=tools/python "$python" - "$work" <<'EOF' || fail "a loss= that names the model's own"
import sys
import gpuplan, torch, transformers
config = transformers.LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=100,
                                  use_cache=False)
batch = {name: torch.zeros(2, 16, dtype=torch.long) for name in ("input_ids", "labels")}
texts = []
for loss in (None, lambda model, out, batch: out.loss):
    gpuplan.export(transformers.LlamaForCausalLM(config), batch, output=sys.argv[1] + "/own_loss.yaml", loss=loss)
    texts.append(open(sys.argv[1] + "/own_loss.yaml").read())
sys.exit(texts[0] != texts[1] or "loss: CausalLMLoss()" not in texts[0])
EOF

# transformers' models with their own loss, and their step as PyTorch runs it.
"$python" tests/torch/export_check.py --gpuplan "$gpuplan" --results "$work/counts" hf:{gpt2,small-bert,small-t5,small-vit,small-mixtral} ||
  fail "counts of transformers' models"
hugging_face=(small-llama small-gpt2 small-bert small-t5 small-mixtral)
"$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_hf.py --gpuplan "$gpuplan" "${hugging_face[@]}" ||
  fail "memory of transformers' models"
for options in "" "--packed"; do
  # shellcheck disable=SC2086
  "$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_hf.py --gpuplan "$gpuplan" --no-cache $options \
    small-llama small-gpt2 small-phi || fail "memory of decoders without a cache $options"
done
for options in "" "--unpadded"; do
  # shellcheck disable=SC2086
  "$gpuplan" shadow --gpu h200 -q -- "$python" tests/torch/export_hf.py --gpuplan "$gpuplan" --mask $options \
    "${hugging_face[@]}" || fail "memory of transformers' models with an attention_mask $options"
done
"$python" tests/torch/export_hf.py --gpuplan "$gpuplan" --importer "${hugging_face[@]}" ||
  fail "plans of transformers' models beside those of their config.json"

# Every call that the catalog lacks is named with its line, and nothing is written.
cat >"$work/unknown.py" <<'PYTHON'
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.linalg.svd(x)[0]
        return torch.fft.fft(y).real
PYTHON
PYTHONPATH=$work "$python" tools/python/gpuplan unknown:Net --input 4x4 -o "$work/unknown.yaml" 2>"$work/errors" &&
  fail "a model of unknown calls is exported"
for line in 'unknown.py:4: linalg_svd' 'unknown.py:5: fft_fft'; do
  grep -q "$line" "$work/errors" || { fail "the error does not name $line"; cat "$work/errors"; }
done
[ ! -e "$work/unknown.yaml" ] || fail "a model of unknown calls leaves a file"

# Models whose step is not what their modules say.
"$python" tests/torch/export_hostile.py --gpuplan "$gpuplan" || fail "models that are followed or refused"
"$gpuplan" shadow --gpu h200 -q --scratch no-cudnn -- "$python" tests/torch/export_modules.py --gpuplan "$gpuplan" ||
  fail "memory of modules that are exported as their parts"

# Older releases, where their interpreter is named.
older=(torchvision:{resnet18,mobilenet_v3_small,shufflenet_v2_x0_5,swin_v2_t,vit_b_32})
for version in 28 24 21 113; do
  named=GPUPLAN_TORCH_PYTHON_$version
  if [ -z "${!named:-}" ]; then
    echo "skip  the exporter with torch $version: $named names no interpreter"
    continue
  fi
  python_with "$version" || { fail "$reason"; continue; }
  "$python" tests/torch/export_check.py --gpuplan "$gpuplan" --results "$work/counts-$version" "${older[@]}" ||
    fail "counts with torch $version"
  "$python" tests/torch/export_hostile.py --gpuplan "$gpuplan" || fail "models that are followed or refused, torch $version"
done
exit "$status"
