#!/usr/bin/env bash
# What `gpuplan plan --emit torchrun` writes is run under gpuplan shadow, and its third step allocates and reserves what was planned, to the
# byte: one imagined rank of each; of a pipeline, whose stages have to hear from each other, all of them. A few ways to share a model; all
# where GPUPLAN_TORCH is "all". What experts take follows from what their router chooses, which no plan knows: tests/parallel has them.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
source tests/torch/python.bash
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
python_with 215 || { echo "$reason"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# launch GPUS ALL|ONE FLAGS...: the plan of a small Llama with these flags, and its script.
launch() {
  local gpus=$1 ranks=$2 command said planned
  shift 2
  "$gpuplan" tests/parallel/models/llama.json --seq 1024 --gpu h200 --gpus "$gpus" --emit torchrun -o "$work/train.py" --force "$@" \
    >"$work/command" 2>"$work/err" || { echo "FAIL  $*: $(head -n 1 "$work/err")"; failed=$((failed + 1)); return; }
  planned=$(sed -nE 's/.*planned: ([0-9,]+) and ([0-9,]+) on rank ([0-9]+)"\)$/\3 \1 \2/p' "$work/train.py")
  if [ "$ranks" = all ]; then
    command=(--gpus "$gpus" -q -- "$python" -m torch.distributed.run --standalone --nproc-per-node "$gpus" "$work/train.py")
  else
    command=(--world "$gpus" --rank "${planned%% *}" -q -- "$python" "$work/train.py")
  fi
  "$gpuplan" shadow --gpu h200 "${command[@]}" >"$work/out" 2>&1
  said=$(sed -nE 's/^rank ([0-9]+): peak ([0-9,]+) bytes allocated, ([0-9,]+) reserved.*/\1 \2 \3/p' "$work/out")
  if grep -qxF "$planned" <<<"$said"; then
    passed=$((passed + 1))
    echo "ok    $gpus GPUs $*: ${planned#* }"
  else
    failed=$((failed + 1))
    echo "FAIL  $gpus GPUs $*: planned $planned, not $said"
    [ -n "$said" ] || tail -n 20 "$work/out"
  fi
}

launch 4 one --batch 8 --opt adamw
launch 8 one --batch 16 --fsdp param=bf16,reduce=fp32,reshard=but-last,reshard-root=true --checkpoint op --opt adamw --clip-grad-norm
launch 8 one --batch 8 --tp 2 --zero fsdp --opt adamw --loop function
launch 8 one --batch 8 --tp 2,sequence,loss --fsdp param=bf16,reduce=fp32 --checkpoint block --opt adamw --clip-grad-norm
launch 4 all --batch 8 --pp 4 --pp-schedule 1f1b,outputs=drop --micro-batches 8 --opt adamw
if [ "${GPUPLAN_TORCH:-}" = all ]; then
  launch 4 one --batch 16 --micro-batches 2 --opt adamw --loop function --clip-grad-norm
  launch 4 one --batch 8 --zero 1 --opt adam --loop function
  launch 2 one --batch 4 --amp bf16 --opt sgd --loop loss_only --bucket-view
  launch 4 one --batch 8 --zero fsdp --opt adamw --loop function
  launch 8 one --batch 16 --fsdp param=bf16,reduce=fp32,replicate=2 --checkpoint block --opt adamw --loop function
  launch 4 one --batch 16 --fsdp sync=last --micro-batches 2 --opt adamw --precision bf16
  launch 4 one --batch 8 --fsdp offload=true --opt adamw
  launch 2 one --batch 2 --tp 2 --precision bf16 --opt adamw
  launch 4 one --batch 8 --zero fsdp --checkpoint every=2 --opt adamw --zero-grad backward
  launch 8 all --batch 16 --pp 2 --tp 2 --pp-schedule gpipe --fsdp param=bf16,reduce=fp32,reshard=false --micro-batches 4 --opt adamw \
    --checkpoint op
fi
echo "$passed equal, $failed differ"
[ "$failed" -eq 0 ]
