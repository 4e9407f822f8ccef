#!/usr/bin/env bash
# `plan --like trl-sft` and `trl-dpo`, with PyTorch and trl: the plan equals a script of one's own (trl_script.py) under `gpuplan shadow`, whose
# process takes the same three steps. With GPUPLAN_TORCH=all every loop. GPUPLAN names the program.
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
equal() { # KIND MODEL BATCH TOKENS FLAGS SETTINGS [ADAPTERS]
  local model=tests/recorded/fine_tuning/models/$2.json planned measured
  # shellcheck disable=SC2086
  planned=$("$gpuplan" "$model" --like "trl-$1" --batch "$3" --seq "$4" --gpu h200 --format json $5 2>"$work/errors" |
    python3 -c 'import json, sys; p = json.load(sys.stdin)["peak"]; print("peaks", p["requested_bytes"], p["allocated_bytes"], p["reserved_bytes"])')
  # shellcheck disable=SC2086
  measured=$("$gpuplan" shadow --gpu h200 -q -- "$GPUPLAN_PYTHON" tests/torch/trl_script.py "$1" "$model" "$3" "$4" "$6" ${7:-} 2>"$work/errors2" | grep '^peaks')
  if [ -n "$measured" ] && [ "$planned" = "$measured" ]; then ok; else
    fail "$1 $2 $5: planned ${planned:-nothing: $(tail -n 2 "$work/errors")}, the script ${measured:-none: $(tail -n 2 "$work/errors2")}"
  fi
}
equal sft llama 4 512 '--lora r=16 --amp bf16 --checkpoint none' '{"bf16": true, "gradient_checkpointing": false}' 16
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  equal sft qwen2 5 700 '--opt adamw' '{"optim": "adamw_torch"}'
  equal sft mistral 2 1024 '--weights nf4 --lora r=8 --amp bf16 --opt paged_adamw8bit --checkpoint block,reentrant' \
    '{"bf16": true, "optim": "paged_adamw_8bit", "gradient_checkpointing_kwargs": {"use_reentrant": true}}' '8 nf4'
  equal dpo llama 3 400 '--lora r=16' '{}' 16
  equal dpo qwen2 2 256 '--amp bf16 --checkpoint none --opt sgd' '{"bf16": true, "gradient_checkpointing": false, "optim": "sgd"}'
fi
"$gpuplan" zoo:gpt2 --like trl-sft >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q 'on a model of transformers' "$work/out" && ok || fail 'a model of the zoo is not refused'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
