#!/usr/bin/env bash
# PyTorch's CUDA build under `gpuplan shadow`, without a GPU: recorded cases again, equal to the byte, and scripts of
# every kind to their end, with the interpreters of python.bash. A sample of a few minutes; every recorded case, the
# long scripts and two more versions of torch where GPUPLAN_TORCH is "all". GPUPLAN names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/torch/python.bash
extent=${GPUPLAN_TORCH:-small}
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
recorded=tests/shadow/results
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
passed=0 failed=0 skipped=0 failures=()

# check NAME COMMAND...: prints the output of one that fails.
check() {
  local name=$1 status=0 started=$SECONDS
  shift
  "$@" >"$output/check" 2>&1 </dev/null || status=$?
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok    $name ($((SECONDS - started)) s): $(grep -E 'differences in|finished' "$output/check" | tail -n 1)"
  else
    failed=$((failed + 1)) failures+=("$name")
    echo "FAIL  $name: exit $status"
    tail -n 60 "$output/check" | cut -c1-240 | sed 's/^/      /'
  fi
}

skip() {
  skipped=$((skipped + 1)) last_reason="$1: $2"
  echo "skip  $last_reason"
}

# again SET KEY[:RUN,RUN]...: a set's cases, and what differs. The GPUs had no CUDA context and this memory when they
# were recorded.
again() {
  local name=$1 gpu scratch=full capacity files=() case status=0
  shift
  for case in "$@"; do files+=("$recorded/$name/${case%%:*}.json${case#"${case%%:*}"}"); done
  case $name in
    h200.*) gpu=h200 capacity=139.8GiB ;;
    a100.*) gpu=a100-80gb capacity=79.25GiB ;;
    t4.*) gpu=t4 capacity=14.56GiB ;;
  esac
  [[ $name != *.nocudnn ]] || scratch=no-cudnn
  "$gpuplan" shadow --gpu "$gpu" --capacity "$capacity" --runtime 0B --scratch "$scratch" -o "$output/report.json" -- \
    env ${no_hook:+PYTHONPATH=} "$python" tests/shadow_recorded/record.py --out "$output/$name$no_hook" \
    "${files[@]}" || status=$?
  # 1 is right where a case runs out of memory, as some were recorded to.
  [ "$status" -le 1 ] || return "$status"
  "$python" tests/shadow_recorded/compare.py "$recorded/$name" "$output/$name$no_hook" "${@%%:*}"
}

# distributed RANKS NAME [ARGUMENT...]
distributed() {
  local ranks=$1 name=$2
  shift 2
  "$gpuplan" shadow --gpu a100-80gb --gpus "$ranks" -- "$python" -m torch.distributed.run --standalone \
    --nproc-per-node "$ranks" "tests/shadow_scripts/$name.py" "$@"
}

script() {
  local name=$1
  shift
  "$gpuplan" shadow "${options[@]}" -- "$python" "tests/shadow_scripts/$name.py" "$@"
}

# Every kind of model, loop, optimizer, precision and allocator setting once or twice, and a run that was refused.
recorded_cases() {
  local name no_hook='' loops
  loops=b128.amp-bf16.adamw.in_backward,b128.bf16.adam-fused.clip.master
  loops+=,b128.fp32.adamw.offload_optimizer,b128.fp32.adam.micro2.offload_saved
  if [ "$extent" = all ]; then
    for name in "$recorded"/*.torch"$1"*; do
      mapfile -t keys < <(basename -s .json "$name"/*.json)
      check "$(basename "$name")" again "$(basename "$name")" "${keys[@]}"
    done
  elif [ "$1" = 2.15 ]; then
    check "h200.torch2.15" again h200.torch2.15 embed_classifier convnext_tiny:b8.amp-bf16.adamw \
      resnet18:b8.fp32.sgd,b8.fp32.adam,b8.infer.fp32,b8.amp-fp16.momentum.channels_last \
      resnet50:b8.amp-fp16.adam,b64.amp-bf16.adamw
    check "a100.torch2.15" again a100.torch2.15 mobilenet_v2:b8.fp32.sgd,b8.amp-fp16.momentum,b128.fp32.adam
    check "h200.torch2.15.nocudnn" again h200.torch2.15.nocudnn \
      mlp:b128.fp32.adam-forloop,b128.fp32.adamw-fused,b128.fp32.adam.loss_only,b128.fp32.adagrad \
      wide_4096:b1000.fp32.adam.max_split_size_mb_32,b1000.fp32.adam.roundup_power2_divisions_4 \
      gpt2:b4.fp32.adam,b4.amp-bf16.adamw.checkpoint,b4.infer.fp16,b4.fp32.adam.expandable_segments_on \
      saving_mlp:"$loops" nasty_gates:b7.fp32.sgd,b7.fp64.rmsprop,b1.infer.fp32 lora_gpt2:b4.bf16.adamw \
      unet_small:b8.fp32.momentum.plain sd_unet:b1.infer.fp32
    check "a100.torch2.15.nocudnn" again a100.torch2.15.nocudnn swin_t:b8.amp-bf16.adamw,b8.infer.fp32 nasty_decoder
    check "t4.torch2.15.nocudnn" again t4.torch2.15.nocudnn nasty_tied resnet18:b8.fp32.sgd,b8.amp-bf16.adamw.micro4 \
      mixtral_two_layers:b1.bf16.adamw
    no_hook=.without
    check "without the hook" again h200.torch2.15 embed_classifier:b32.fp32.adam,b32.infer.fp32
  else
    check "h200.torch2.8.nocudnn" again h200.torch2.8.nocudnn resnet50:b8.fp32.adam,b8.amp-fp16.adam,b8.infer.fp32
    check "a100.torch2.8.nocudnn" again a100.torch2.8.nocudnn \
      mlp:b128.fp32.sgd,b128.amp-bf16.adamw,b128.fp32.adamw.clip,b128.infer.fp16
  fi
}

scripts() {
  local name options=(--gpu a100-80gb) steps=2000
  [ "$extent" != all ] || steps=10000
  for name in training_loop classification_trainer generate graphs recurrent streams spawned; do
    check "torch $1: $name" script "$name"
  done
  check "torch $1: classification_trainer --amp" script classification_trainer --amp --epochs 1
  for name in hugging_face_trainer:accelerate lora:peft; do
    if "$python" -c "import ${name#*:}" 2>/dev/null; then
      check "torch $1: ${name%:*}" script "${name%:*}"
    else
      skip "torch $1: ${name%:*}" "$python has no ${name#*:}"
    fi
  done
  for name in expandable_segments:True backend:cudaMallocAsync roundup_power2_divisions:8; do
    PYTORCH_CUDA_ALLOC_CONF=$name check "torch $1: allocators with $name" script allocators
  done
  check "torch $1: ten_thousand_steps" script ten_thousand_steps "$steps"
  check "torch $1: out_of_memory" runs_out script out_of_memory
  options=(--gpu h200)
  check "torch $1: seventy_billion" script seventy_billion
}

distributed_scripts() {
  local ranks=2 options=(--gpu a100-80gb --gpus 2)
  check "torch $1: ddp_data_parallel" script ddp_data_parallel
  check "torch $1: ddp_small on 2 ranks" distributed 2 ddp_small
  check "torch $1: ddp_groups on 2 ranks" distributed 2 ddp_groups
  [ "$extent" != all ] || ranks=8
  check "torch $1: fsdp2_small on $ranks ranks" distributed "$ranks" fsdp2_small
  options=(--gpu a100-80gb --world 1024 --rank 3)
  check "torch $1: fsdp2_small as rank 3 of 1024" script fsdp2_small
}

# The script catches the error and ends well; the command's exit code tells.
runs_out() {
  local status=0
  "$@" || status=$?
  [ "$status" -eq 1 ]
}

for version in 215 28 26 24; do
  [ "$extent" = all ] || [ "$version" = 215 ] || [ "$version" = 28 ] || continue
  dotted=2.${version#2}
  if ! python_with "$version"; then
    skip "torch $dotted" "$reason"
    continue
  fi
  case $version in
    215) recorded_cases 2.15; scripts 2.15; distributed_scripts 2.15 ;;
    28)
      recorded_cases 2.8
      if [ "$extent" = all ]; then
        scripts 2.8
        distributed_scripts 2.8
      else
        options=(--gpu a100-80gb)
        check "torch 2.8: hugging_face_trainer" script hugging_face_trainer
      fi
      ;;
    *) options=(--gpu h200); check "torch $dotted: first_steps" script first_steps ;;
  esac
done
[ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
if [ "$passed" -eq 0 ] && [ "$failed" -eq 0 ]; then
  echo "$last_reason"
  exit 77
fi
[ "$failed" -eq 0 ]
