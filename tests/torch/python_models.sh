#!/usr/bin/env bash
# Models in Python that are named on the command line, with PyTorch: exported, compared with their own steps, remembered. With
# GPUPLAN_TORCH=all also models of timm and torchvision. GPUPLAN names the program; the interpreter is python.bash's.
# shellcheck disable=SC2016  # eval expands it
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with 215 || { echo "torch 2.15: $reason"; exit 77; }
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache HF_HUB_OFFLINE=1
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
check() { # NAME COMMAND...
  if "${@:2}" >"$work/out" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $1"; tail -n 20 "$work/out"; fi
}

cat >"$work/net.py" <<'PYTHON'
import sys
import torch
from block import Block

print("warning: No module named 'nothing'", file=sys.stderr)  # as packages do of what they can do without

class Net(torch.nn.Sequential):
    def __init__(self, width=8):
        super().__init__(Block(3, width), Block(width, 2 * width), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2 * width, 10))

class Wide(Net):
    """Another model at a batch that no export traces: what it plans is not what it takes."""
    def forward(self, x):
        out = super().forward(x)
        return out + super().forward(x) if len(x) == 4 else out

class Half(Net):
    """Another model under autocast."""
    def forward(self, x):
        out = super().forward(x)
        return out + super().forward(x) if torch.is_autocast_enabled("cuda") else out

HALVES = (torch.bfloat16, torch.float16)

class Typed(Net):
    """The same, which no export sees."""
    def forward(self, x):
        out = super().forward(x)
        return out + super().forward(x) if out.dtype in HALVES else out

class Lost(Net):
    def forward(self, x):
        out = super().forward(x)
        return out * torch.fft.fft(out).abs()

class Contrast(torch.nn.Module):
    """Compares what it computed of two inputs, as CLIP does; in training alone."""
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(32, 16), torch.nn.Linear(32, 16)
    def forward(self, x, y):
        logits = self.a(x) @ self.b(y).t() * 3
        if not self.training: return logits
        own = torch.arange(len(logits), device=logits.device)
        loss = (torch.nn.functional.cross_entropy(logits, own) + torch.nn.functional.cross_entropy(logits.t(), own)) / 2
        return {"loss": loss, "logits": logits}

def lora():
    """The model's own loss is computed two modules below."""
    import peft, transformers
    config = transformers.LlamaConfig(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, vocab_size=8000, use_cache=False)
    return peft.get_peft_model(transformers.LlamaForCausalLM(config), peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
PYTHON
cat >"$work/block.py" <<'PYTHON'
from torch import nn
def Block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
PYTHON
mkdir "$work/biogpt" "$work/experts"
cat >"$work/experts/config.json" <<'JSON'
{"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "vocab_size": 1024, "num_hidden_layers": 2, "hidden_size": 64,
 "num_attention_heads": 4, "intermediate_size": 96, "num_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 64}
JSON
cat >"$work/biogpt/config.json" <<'JSON'
{"architectures": ["BioGptForCausalLM"], "model_type": "biogpt", "vocab_size": 1024, "num_hidden_layers": 2, "hidden_size": 64,
 "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64}
JSON

plan() { (cd "$work" && "$gpuplan" plan "$@" >"$work/plan" 2>"$work/said") || { cat "$work/plan" "$work/said"; return 1; }; }
own() { plan net.py:Net --input 3x32x32 --arg width=16 -b 16 && cat "$work/plan" && grep -q 'Verified  *equal to PyTorch 2.15' "$work/plan" && grep -q '^  Params  *5,' "$work/plan"; }
check "a file of the user's, and what it imports" own
changed() { sed -i 's/a, b, 3, padding=1/a, b, 5, padding=2/' "$work/block.py" && own2; }
own2() { plan net.py:Net --input 3x32x32 --arg width=16 -b 16 && grep -q 'Params  *14,' "$work/plan"; }
check "what it imports has changed" changed
differs() {
  plan net.py:Wide --input 3x32x32 -b 6 && cat "$work/said" && grep -q 'warning: net.py:Wide: its spec is not equal to PyTorch 2.15.*batch 4.*learned' "$work/said" && grep -q 'Learned' "$work/plan" &&
    plan net.py:Wide --input 3x32x32 -b 6 --no-learn && cat "$work/said" && grep -q 'warning: not equal to PyTorch 2.15.*train.*batch 4' "$work/said" && grep -q FLOP "$work/plan" &&
    plan net.py:Wide --input 3x32x32 -b 6 --micro-batches 2 && grep -q 'warning: not equal to PyTorch 2.15' "$work/said"
}
check "a model that is another one at other batches: its step is learned" differs
typed() {
  plan net.py:Half --input 3x32x32 -b 16 && cat "$work/plan" && grep -q 'Verified  *equal to PyTorch 2.15 at batch 4 and 6, train and eval, fp32, sim' "$work/plan" &&
    plan net.py:Half --input 3x32x32 -b 16 --amp bf16 && cat "$work/plan" && grep -q 'Verified  *equal to .*, train, fp32, autocast to bf16' "$work/plan" &&
    plan net.py:Typed --input 3x32x32 -b 16 --amp bf16 && cat "$work/said" && grep -q 'its spec is not equal to .*train, fp32, autocast to bf16.*learned' "$work/said" &&
    plan net.py:Net --input 3x32x32 -b 16 --precision bf16 --layout nhwc --mode infer && cat "$work/plan" && grep -q 'equal to .*, eval, bf16, channels-last' "$work/plan"
}
check "a spec is compared in the type that is asked for" typed
learned() {
  plan net.py:Lost --input 3x8x8 -b 16 --opt adam --gpu t4 && grep -q 'net.py:Lost cannot be exported: .*net.py:.*fft_fft.*learned' "$work/said" && grep -q 'Learned  *on NVIDIA T4' "$work/plan" &&
    "$gpuplan" shadow --gpu t4 --format json -- "$python" -c 'import sys; sys.path[0] = sys.argv[1]; sys.path.append(sys.argv[2]); from gpuplan.learned import main; main(sys.argv[3:])' \
      "$PWD/tools/python" "$work" "$work/sources" 16 '{"optimizer": "adam"}' "$work/net.py:Lost" --input 3x8x8 >"$work/run.json" &&
    plan net.py:Lost --input 3x8x8 -b 16 --opt adam --gpu t4 --format json &&
    "$python" - "$work/plan" "$work/run.json" <<'PYTHON'
import json, sys
planned, run = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(f"{planned['peak']} planned, {run['peak']} taken" if planned["peak"]["allocated_bytes"] != run["peak"]["allocated_bytes"] else 0)
PYTHON
}
check "a model that is not exported: its step is learned, and takes at another batch what is planned" learned
other_flags() { ! plan net.py:Lost --input 3x8x8 -b 16 --opt adam --gpu t4 --micro-batches 2 && grep -q 'error: --micro-batches: net.py:Lost is planned from its own step, which does not take this flag' "$work/said"; }
check "what a learned step is not told" other_flags
hugging_face() {
  plan hf:biogpt -b 2 --mode infer && cat "$work/plan" "$work/said" && grep -q 'tokens/s\|64' "$work/plan" && grep -q 'BioGpt\|biogpt' "$work/plan" &&
    grep -q 'Verified  *equal to PyTorch 2.15 at batch 4 and 6, train and eval, fp32' "$work/plan"
}
check "a config.json that gpuplan does not read itself" hugging_face
experts() { plan hf:experts -b 8 && cat "$work/plan" "$work/said" && grep -q 'Verified  *equal to PyTorch 2.15 at batch 4 and 6, train and eval, fp32' "$work/plan"; }
check "experts that are computed by grouped products" experts
adapters() {
  plan net.py:lora --input input_ids:int64:32 --input labels=input_ids -b 8 --opt adamw && cat "$work/plan" "$work/said" &&
    grep -q 'Verified  *equal to PyTorch 2.15 at batch 4 and 6, train and eval, fp32' "$work/plan"
}
check "adapters of peft around a model with a loss of its own" adapters
contrast() {
  plan net.py:Contrast --input x:32 --input y:32 -b 8 && cat "$work/plan" "$work/said" &&
    grep -q 'Verified  *equal to PyTorch 2.15 at batch 4 and 6, train' "$work/plan"
}
check "a loss whose targets the model makes" contrast
if [ "${GPUPLAN_TORCH:-small}" = all ]; then
  for model in timm:resnet18 timm:vit_tiny_patch16_224 torchvision:mobilenet_v3_small torchvision:swin_t; do
    check "$model" eval "plan $model -b 8 && grep -q 'Verified  *equal to PyTorch' $work/plan"
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
