#!/usr/bin/env bash
# `plan --like trl-sft` and `trl-dpo`, with PyTorch and trl: the plan equals a script of one's own (trl_script.py) under `gpuplan shadow`, whose
# process takes the same three steps. And `--peft`: what peft's LoRA takes is what --lora plans by rules. With GPUPLAN_TORCH=all every loop, and
# libraries' forms of weights (weights_script.py), where they are installed.
# GPUPLAN names the program.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
python_with trl || { echo "trl: $reason"; exit 77; }
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache
GPUPLAN_PYTHON=$(realpath -s "$python")
passed=0 failed=0
ok() { passed=$((passed + 1)); }
fail() { echo "FAIL  $*"; failed=$((failed + 1)); }
peak_of() { # FLAGS...
  "$gpuplan" "$@" --gpu h200 --format json 2>"$work/errors" |
    python3 -c 'import json, sys; p = json.load(sys.stdin)["peak"]; print("peaks", p["requested_bytes"], p["allocated_bytes"], p["reserved_bytes"])'
}
agree() { # MODEL CONFIG LORA FLAGS: of peft, and by rules
  local model=tests/recorded/fine_tuning/models/$1.json learned planned
  # shellcheck disable=SC2086
  {
    learned=$(peak_of "$model" --peft "$2" ${4/--loop function/})
    planned=$(peak_of "$model" --lora "$3" $4)
  }
  if [ -n "$planned" ] && [ "$planned" = "$learned" ]; then ok; else
    fail "$1 --peft $2 $4: ${learned:-nothing: $(tail -n 2 "$work/errors")}, by rules ${planned:-none}"
  fi
}
equal() { # KIND MODEL BATCH TOKENS FLAGS SETTINGS [ADAPTERS]
  local model=tests/recorded/fine_tuning/models/$2.json planned measured
  # shellcheck disable=SC2086
  planned=$(peak_of "$model" --like "trl-$1" --batch "$3" --seq "$4" $5)
  # shellcheck disable=SC2086
  measured=$("$gpuplan" shadow --gpu h200 -q -- "$GPUPLAN_PYTHON" tests/torch/trl_script.py "$1" "$model" "$3" "$4" "$6" ${7:-} 2>"$work/errors2" | grep '^peaks')
  if [ -n "$measured" ] && [ "$planned" = "$measured" ]; then ok; else
    fail "$1 $2 $5: planned ${planned:-nothing: $(tail -n 2 "$work/errors")}, the script ${measured:-none: $(tail -n 2 "$work/errors2")}"
  fi
}
agree_on_weights() { # MODEL FORM FLAGS SETTINGS
  local model=tests/recorded/fine_tuning/models/$1.json planned measured
  # shellcheck disable=SC2086
  planned=$(peak_of "$model" --weights "$2" --batch 3 --seq 256 $3)
  measured=$("$gpuplan" shadow --gpu h200 -q -- "$GPUPLAN_PYTHON" tests/torch/weights_script.py "$model" "$2" "$4" 2>"$work/errors2" | grep '^peaks')
  if [ -n "$measured" ] && [ "$planned" = "$measured" ]; then ok; else
    fail "$1 --weights $2 $3: planned ${planned:-nothing: $(tail -n 2 "$work/errors")}, the script ${measured:-none: $(tail -n 2 "$work/errors2")}"
  fi
}
has() { "$GPUPLAN_PYTHON" -c "import $1" >"$work/out" 2>&1; } # MODULE
equal sft llama 4 512 '--lora r=16 --amp bf16 --checkpoint none' '{"bf16": true, "gradient_checkpointing": false}' 16
agree llama 'LoraConfig(r=16, target_modules="all-linear")' r=16 '--amp bf16 --seq 512 --batch 4 --opt adamw --loop function'
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  agree qwen2 'LoraConfig(r=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)' r=8,targets=q_proj+v_proj,dropout=0.1 \
    '--precision bf16 --seq 300 --batch 3 --micro-batches 3 --loop function'
  agree mistral 'LoraConfig(r=16, target_modules="all-linear")' r=16 \
    '--weights nf4:double --amp bf16 --seq 512 --batch 4 --opt adamw --checkpoint block,reentrant --loop function'
  agree qwen2 'LoraConfig(r=16, target_modules="all-linear")' r=16 '--like trainer --amp bf16 --seq 512 --batch 4'
  agree llama 'LoraConfig(r=8, use_dora=True, target_modules=["q_proj"])' r=8,dora=true,targets=q_proj '--seq 256 --batch 2 --loop function'
  equal sft qwen2 5 700 '--opt adamw' '{"optim": "adamw_torch"}'
  equal sft mistral 2 1024 '--weights nf4 --lora r=8 --amp bf16 --opt paged_adamw8bit --checkpoint block,reentrant' \
    '{"bf16": true, "optim": "paged_adamw_8bit", "gradient_checkpointing_kwargs": {"use_reentrant": true}}' '8 nf4'
  equal dpo llama 3 400 '--lora r=16' '{}' 16
  if has torchao; then
    for form in int8:torchao fp8:torchao int4:torchao; do agree_on_weights llama $form '--mode infer' infer; done
    agree_on_weights qwen2 int8:torchao '--lora r=16 --opt adamw --amp bf16' train
    agree_on_weights mistral fp8:torchao '--lora r=16 --opt adamw --amp bf16' train
  fi
  if has hqq; then
    agree_on_weights llama int4:hqq '--mode infer' infer
    agree_on_weights qwen2 int8:hqq '--lora r=16,targets=q_proj+v_proj --opt adamw --amp bf16' train
  fi
  equal dpo qwen2 2 256 '--amp bf16 --checkpoint none --opt sgd' '{"bf16": true, "gradient_checkpointing": false, "optim": "sgd"}'
fi
"$gpuplan" zoo:gpt2 --like trl-sft >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q 'on a model of transformers' "$work/out" && ok || fail 'a model of the zoo is not refused'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
