#!/usr/bin/env bash
# Libraries whose code is run (`--like trl-sft`, `--peft`, `--weights int4:torchao`), with PyTorch and trl: the plan equals a script of one's own under
# `gpuplan shadow` (library_runs.py). And `--peft`: what peft's LoRA takes is what --lora plans by rules. With GPUPLAN_TORCH=all every run of
# tests/recorded/libraries, which takes two hours of a core and needs torchao, hqq and cut_cross_entropy, too, and
# for some runs what the README there names.
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
runs() { # ARGUMENTS of library_runs.py
  local summary
  "$GPUPLAN_PYTHON" tests/torch/library_runs.py --gpuplan "$gpuplan" "$@" >"$work/runs" 2>&1
  grep -v ' passed, ' "$work/runs"
  summary=$(tail -n 1 "$work/runs")
  [[ $summary =~ ^[0-9]+\ passed,\ [0-9]+\ failed$ ]] || { fail "library_runs.py ended with: $summary"; return; }
  passed=$((passed + ${summary%% passed*})) failed=$((failed + $(sed 's/.*, \([0-9]*\) failed/\1/' <<<"$summary")))
}
if [ "${GPUPLAN_TORCH:-}" = all ]; then runs; else
  runs --one 'trl-sft --lora'
  runs --one '--gpus 8 --fsdp'
fi
agree llama 'LoraConfig(r=16, target_modules="all-linear")' r=16 '--amp bf16 --seq 512 --batch 4 --opt adamw --loop function'
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  agree qwen2 'LoraConfig(r=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)' r=8,targets=q_proj+v_proj,dropout=0.1 \
    '--precision bf16 --seq 300 --batch 3 --micro-batches 3 --loop function'
  agree mistral 'LoraConfig(r=16, target_modules="all-linear")' r=16 \
    '--weights nf4:double --amp bf16 --seq 512 --batch 4 --opt adamw --checkpoint block,reentrant --loop function'
  agree qwen2 'LoraConfig(r=16, target_modules="all-linear")' r=16 '--like trainer --amp bf16 --seq 512 --batch 4'
  agree llama 'LoraConfig(r=8, use_dora=True, target_modules=["q_proj"])' r=8,dora=true,targets=q_proj '--seq 256 --batch 2 --loop function'
fi
"$gpuplan" zoo:gpt2 --like trl-sft >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q 'on a model of transformers' "$work/out" && ok || fail 'a model of the zoo is not refused'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
