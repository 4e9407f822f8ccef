#!/usr/bin/env bash
# The command line as a user meets it: what goes to which stream, exit codes, files, terminals. $GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NO_COLOR CLICOLOR_FORCE LC_ALL LC_CTYPE
export LANG=C.UTF-8
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

# expect CODE PATTERN ARGUMENTS...: the exit code, and a pattern that standard output (code 0 or 1) or standard error has.
# An error leaves nothing on standard output.
expect() {
  local code=$1 pattern=$2 actual stream=out
  shift 2
  "$gpuplan" "$@" >"$work/out" 2>"$work/err" </dev/null
  actual=$?
  [ "$code" -le 1 ] || stream=err
  [ "$actual" -eq "$code" ] || fail "gpuplan $*: exit $actual, not $code: $(head -n 1 "$work/err")"
  grep -qE -- "$pattern" "$work/$stream" || fail "gpuplan $*: no '$pattern' in $(head -n 3 "$work/$stream")"
  [ "$code" -le 1 ] || [ ! -s "$work/out" ] || fail "gpuplan $*: an error, and text on standard output"
}

model=configs/models/mlp.yaml

# Answers.
expect 0 '^  Peak ' $model --batch 64
expect 0 '^  Peak ' plan $model --batch 64 --opt adam
expect 0 '^mlp · train · batch 64' $model --batch 64
expect 0 '^  Needs .* fits' $model -b 64 --gpu t4
expect 0 '^  Needs .* fits NVIDIA T4' $model -b 64 --device 'Tesla T4'
expect 0 '^  Needs .* fits NVIDIA A100-SXM4-80GB' $model -b 64 --gpu a100-80g
expect 1 'does not fit' zoo:resnet50 -b 64 --gpu '4 GiB'
expect 2 '--gpu 0 GiB: a memory limit must be above 0' fit zoo:mlp -b 64 --on '0 GiB'
expect 2 'is standard output, which already gets the report' $model -b 64 -o json:-
expect 2 'is standard output, which already gets the report' $model -b 64 -o -
expect 0 '^gpuplan: 1' init zoo:mlp -o -
expect 0 '^gpuplan: 1' import tests/huggingface/gpt2.json -o -
expect 0 '^  \+ runtime +512 MiB .*assumed' $model -b 64
expect 0 '^  \+ runtime +300 MiB .*assumed' $model -b 64 --runtime 300MiB
expect 0 '"context_bytes": 0,' $model -b 64 --runtime '0 B' --format json
expect 1 'does not fit' $model -b 64 --gpu t4 --runtime '16 GiB'
expect 1 '--batch [0-9]+ ' zoo:resnet50 -b 64 --gpu '4 GiB'
expect 1 '--micro-batches [0-9]+ ' zoo:resnet50 -b 64 --gpu '4 GiB'
expect 1 '--batch [0-9]*[02468] ' zoo:resnet50 -b 256 --micro-batches 2 --gpu '4 GiB'
expect 0 '· infer ·' $model --mode infer
expect 0 '"loop": "function"' $model --mode infer --format json
expect 0 '"loop": "plain"' $model --mode infer --loop plain --format json
expect 0 'tokens not packed · with labels' zoo:gpt2 --mode infer --labels
expect 0 '"labels": true' zoo:gpt2 --mode infer --labels --format json
expect 2 "--labels: the model's forward does not compute a loss" $model --mode infer --labels
expect 2 '--labels needs --mode infer' $model --labels
expect 2 '--labels: generation has no labels' zoo:gpt2 --mode infer --labels --phase decode --prompt 8
expect 0 '"optimizer_impl": "for-loop"' $model -b 2 --pytorch 1.13 --format json
expect 0 '"optimizer": "momentum"' $model -b 2 --opt sgd_momentum --format json
expect 0 '"clip_grad_norm": true' $model -b 2 --clip-grad-norm --format json
expect 0 '"clip_grad_norm": true' $model -b 2 --clip-grad-norm=1.0 --format json
expect 0 '"weight_decay": true' $model -b 2 --weight-decay --format json
expect 0 '"tool": "fvcore"' zoo:resnet18 --count-as fvcore --format json
expect 0 '"per_sample": 1819065856' zoo:resnet18 --count-as fvcore --format json
expect 0 '^name,type,at' $model -b 2 --format csv
expect 0 '^\| module ' $model -b 2 --format md
expect 0 'gpuplan: 1' $model --canonical
expect 0 '^  layer1 ' layers zoo:resnet50 --depth 1 -n 0
expect 0 'more rows\]' layers zoo:resnet50 --depth 0 -n 5
expect 0 'Linear' explain layers
expect 0 'Linear\(' explain Linear
expect 0 'reserved' explain allocator
expect 0 '^  t4 .* fp16, int8 and int4 on tensor cores' explain gpus
expect 0 '^  l4 +NVIDIA L4 +8.9 +22,342 +300 +30.3 +60 +121 +242' gpus
expect 0 '^NVIDIA H200 · Hopper · compute capability 9.0 · 132 SMs' gpus nvidia_h200
expect 0 '^  rtx2080ti ' gpus turing
expect 0 '"cuda_total_bytes": 150109880320' gpus h200 --format json
expect 2 'unknown GPU "l44" — did you mean "l4' gpus l44
expect 2 'leave out the name' gpus t4 --live
expect 0 '^NVIDIA L4 · Ada' gpus configs/gpus/l4.yaml
sed '/^title/d; /^sm_count/d' configs/gpus/l4.yaml >"$work/gpu.yaml"
expect 3 'a GPU needs title:, sm_count:' gpus "$work/gpu.yaml"
export SOURCE_DATE_EPOCH=1795305600  # 2026-11-22: the age of prices
expect 0 '^  aws +g6.xlarge +1  l4 .* 0.805 ' instances --gpu L4 --provider aws
expect 0 'prices are older than 90 days' instances
expect 0 '"schema": "gpuplan.instances/1"' instances --gpu t4 --format json
expect 1 'no instance matches' instances --gpu k80 --provider gcp
expect 2 'did you mean "aws"' instances --provider awss
expect 2 'did you mean "l4' instances --gpu l44
expect 0 '^  aws +g6.xlarge ' instances --gpu l4 --provider AWS --region US-EAST-1
expect 2 '--region expects East Coast .NY2., North America, community cloud, eastus,' instances --region mars
expect 2 '--provider has an empty item in "aws,,gcp"' instances --provider aws,,gcp
expect 2 '--on has an empty item in "t4,"' fit zoo:mlp -b 64 --on=t4,
expect 2 'unknown GPU "p4d.24xlarge"' zoo:mlp -b 64 --gpu p4d.24xlarge
grep -q 'help: that is an instance of aws, which has 8 x a100-40gb' "$work/err" || fail "an instance for a GPU is not told"
expect 2 '--samples expects a whole number, not "1.28"' fit zoo:mlp -b 64 --on t4 --samples 1.28
grep -q 'billions: 1.28M' "$work/err" || fail "a unit of --samples is not told"
expect 2 '--samples expects a whole number, not "1.2805k"' fit zoo:mlp -b 64 --on t4 --samples 1.2805k
expect 0 'epoch' fit zoo:mlp -b 64 --on t4 --samples 4.35M
expect 0 '>=2025-09-12, undated' fit zoo:mlp -b 64 --on l40s --provider vast
expect 1 'it fits, but --spot leaves no instance with it: no spot price is known' fit zoo:mlp -b 64 --on t4 --spot --provider aws
expect 1 'it fits, but --provider lambda leaves no instance with it' fit zoo:mlp -b 64 --on t4 --provider lambda
expect 1 'it fits, but --spot and --provider lambda together leave no instance' fit zoo:mlp -b 64 --on t4 --spot --provider lambda
expect 1 '--budget leaves no instance with it: the cheapest is aws .* at 0.420 USD/h' fit zoo:mlp -b 64 --on t4 --budget 0.01usd/h
expect 0 'tokens/s' fit tests/huggingface/gpt2.json --mode infer --phase decode --prompt 9 --generate 9 --on l4
expect 2 'price, gpu-price or name' instances --sort cost
printf 'InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\ng6.xlarge,L4,1,4,16,0.9,0.4,eu\n' \
  >"$work/vms.csv"
expect 2 'does not name its cloud' instances import "$work/vms.csv"
expect 0 '^aws,g6.xlarge,l4,1,4,16,,,,0.9,0.4,eu,2026-11-20,' instances import "$work/vms.csv" --provider aws --date 2026-11-20
printf 'g6.xlarge,L4,1,4,16,0.8,0.5,eu\n' | cat "$work/vms.csv" - >"$work/twice.csv"
expect 0 '^aws,g6.xlarge,l4,1,4,16,,,,0.8,0.4,eu' instances import "$work/twice.csv" --provider aws --date 2026-11-20
grep -q 'kept the cheapest .* 1 row, the first of g6.xlarge in eu' "$work/err" || fail "two prices of an instance are not told"
expect 2 'YYYY-MM-DD' instances import "$work/vms.csv" --provider aws --date yesterday
"$gpuplan" instances import "$work/vms.csv" --provider aws --date 2026-11-20 -o "$work/prices.csv" 2>"$work/err" ||
  fail "a catalog is not written: $(cat "$work/err")"
expect 0 ' 0.900 +0.400 +eu +2026-11-20' instances --prices "$work/prices.csv"
expect 3 'was written by gpuplan instances import already' instances import "$work/prices.csv" --provider aws
unset SOURCE_DATE_EPOCH
expect 0 'torch.autocast' explain precision
expect 0 'micro-batches' explain saving
expect 0 'It does not fit, and the exit code is 1' explain fits
expect 0 "PyTorch's cache back to the GPU does not fit" fit --help
expect 0 'prefill' explain generation
expect 0 '"gpuplan.plan/1"' schema plan
expect 0 '"gpuplan.shadow/1"' schema shadow
expect 0 '"\$schema"' schema
expect 0 '^gpuplan [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 'compiler' version -v
expect 0 'usage|Usage' plan --help
expect 0 'Usage: gpuplan layers' help layers
expect 0 'gpuplan MODEL' -h

expect 0 '^  Peak ' -- zoo:resnet18

# Precision, and what the GPU makes of it. A strict warning is a no.
expect 0 '"precision": "tf32"' $model -b 2 --precision tf32 --format json
expect 0 '"amp": "bf16"' $model -b 2 --amp bf16 --format json
expect 0 '"amp": "fp16"' $model -b 2 --precision amp=fp16 --format json
expect 0 '· fp32, amp bf16 ·' $model -b 2 --amp bf16
expect 0 ', fp32, amp bf16,' $model -b 2 --amp bf16 --format md
for flag in --amp --precision; do
  expect 0 '^  Peak ' $model -b 2 --gpu t4 $flag bf16
  grep -q 'T4 has no native bf16.* fp16, int8 and int4 on tensor cores' "$work/err" || fail "no warning of $flag bf16 on a T4"
  expect 1 '^  Peak ' $model -b 2 --gpu t4 $flag bf16 --strict
  expect 0 '^  Peak ' $model -b 2 --gpu a100-40gb $flag bf16 --strict
done
expect 1 '^  Peak ' $model -b 2 --strict # no --gpu
expect 1 '^  Peak ' $model -b 2 --gpu v100-sxm2-16gb --precision bf16 --strict
expect 3 'has no native fp8' $model --mode infer --weights fp8 --gpu a100-40gb
expect 0 '"weights": "fp8"' $model --mode infer --weights fp8 --gpu rtx4090 --format json
expect 3 'refuses bf16 on it before PyTorch 2.3' $model -b 2 --amp bf16 --gpu t4 --pytorch 2.2

# What saves memory.
expect 0 '"micro_batches": 4' $model -b 8 --micro-batches 4 --format json
expect 0 '^  4 micro-batches' $model -b 8 --micro-batches 4
for blocks in none block every=2 'layer1.*'; do
  expect 0 "\"checkpoint\": \"${blocks//\*/\\*}\"" zoo:resnet18 --ckpt "$blocks" --format json
done
expect 0 '^  Recompute +[0-9.]+ [A-Z]FLOP recomputed.* 8 checkpointed blocks' zoo:resnet18 -b 2 --checkpoint block
expect 0 '"layout": "nhwc"' zoo:resnet18 --layout nhwc --format json
expect 0 '"attention": "math"' $model -b 2 --attention math --format json
grep -q 'no layer is attention' "$work/err" || fail "no warning of --attention without attention"
expect 0 '"master_weights": "fp32"' $model -b 2 --precision bf16 --master fp32 --format json
expect 0 '"optimizer_in_backward": true' $model -b 2 --optimizer-in-backward --format json
expect 0 '^  optimizer on the host · saved tensors on the host' $model -b 2 --offload optimizer,saved

# bf16 before Ampere is emulated, and slower than either type that is not.
expect 0 '^ +--precision fp16 ' layers zoo:resnet50 --batch 16 --precision bf16 --gpu t4 --time
expect 2 'at least 0.001 Gbit/s' plan zoo:gpt2 --batch 64 --gpus 16 --gpu a100 --network 1e-300
expect 2 'from 1 to 10,000' plan zoo:mlp --batch 100000 --micro-batches 100000
expect 3 'SkyPilot does not join' fit zoo:mlp --gpus 16 --on h100 --provider runpod --network 100 --emit sky

# The model may stand last, also behind a flag that can be repeated.
expect 0 '^mlp · train' plan --batch 8 --set classes=10 zoo:mlp
expect 0 '^ +1 ' sweep --over batch=1,2 zoo:mlp
expect 0 '^  t4 ' fit --on t4,l4 zoo:mlp
expect 0 '^  l4 ' fit --on t4 --on l4 zoo:mlp
expect 0 '^  t4 ' fit --provider aws --on t4 zoo:mlp
expect 0 . layers -o "$work/last.csv" zoo:mlp --batch 8
expect 3 "cannot read l4" fit --on t4 l4

# Models that are not written in YAML.
hub=tests/huggingface
expect 0 'Params +124,439,808' $hub/gpt2.json --batch 1
expect 0 '^gpt2 · train · batch 1 × 64' $hub/gpt2.json --batch 1 --seq 64
expect 0 '^  transformer ' layers $hub/gpt2.json -n 0
expect 0 '^  hidden: 768  # n_embd' import $hub/gpt2.json
expect 0 'gpuplan: 1' $hub/gpt2.json --canonical
expect 0 '^  Peak ' $hub/llama-2-7b.json --batch 1 --mode infer
grep -q 'config.json says float16; planned as fp32: --precision fp16' "$work/err" || fail "no warning of a config.json's type"
for type in '--precision fp32' '--precision fp16' '--amp fp16'; do
  expect 0 '^  Peak ' $hub/llama-2-7b.json --batch 1 --mode infer $type
  ! grep -q 'config.json says' "$work/err" || fail "a warning of a config.json's type in spite of $type"
done
for command in fit 'sweep --over batch=1,2'; do
  expect 0 . $command $hub/llama-2-7b.json --mode infer --seq 8
  grep -q 'config.json says float16' "$work/err" || fail "$command: no warning of a config.json's type"
done
expect 0 . sweep --over precision=fp32,fp16 $hub/llama-2-7b.json --batch 1 --mode infer --seq 8
! grep -q 'config.json says' "$work/err" || fail "a warning of a type that is swept"
mkdir -p "$work/gpt2"
sed 's/"n_ctx": 1024/"n_ctx": 1024, "n_inner": 2147483647/; s/"n_positions": 1024/"n_positions": 2147483647/' $hub/gpt2.json \
  >"$work/huge.json"
expect 3 "^  --> $work/huge.json, line [0-9]+ of the spec that gpuplan import makes of it" "$work/huge.json" --seq 999999999
cp $hub/gpt2.json "$work/gpt2/config.json"
expect 0 'Params +124,439,808' "$work/gpt2" --batch 1
"$gpuplan" import $hub/gpt2.json -o "$work/gpt2.yaml" || fail 'an import into a file'
"$gpuplan" import $hub/gpt2.json -o "$work/gpt2.yaml" || fail 'an import into a file that has its text already'
echo '# mine' >>"$work/gpt2.yaml"
expect 2 'already exists with different contents' import $hub/gpt2.json -o "$work/gpt2.yaml"
grep '^# mine' "$work/gpt2.yaml" >/dev/null || fail 'an import went over a file that was edited'
"$gpuplan" import $hub/gpt2.json -o "$work/gpt2.yaml" --force || fail 'an import with --force'
grep '^# mine' "$work/gpt2.yaml" >/dev/null && fail '--force replaced nothing'
expect 0 'Params +124,439,808' "$work/gpt2.yaml" --batch 1
"$gpuplan" $hub/gpt2.json --canonical >"$work/imported" && "$gpuplan" "$work/gpt2.yaml" --canonical >"$work/written"
cmp -s "$work/imported" "$work/written" || fail 'an import that is written is another model'
"$gpuplan" - --batch 1 <$hub/gpt2.json | grep -E 'Params +124,439,808' >/dev/null || fail 'a config.json on standard input'
expect 3 'unknown family "gptt2" — did you mean "gpt2"' <(sed 's/"gpt2"/"gptt2"/' $hub/gpt2.json)
expect 3 'which has weights but no model' import <(printf 'PK\003\004')
printf 'PK\003\004' >"$work/model.pt"
expect 3 'is a zip archive, as torch.save and torch.export write' plan "$work/model.pt"
expect 2 'no file to import is given' import
expect 4 'cannot be written there' import $hub/gpt2.json -o "$work/no/such/folder.yaml"

# Checkpoints.
weights='{"fc.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},"fc.bias":{"dtype":"F32","shape":[4],"data_offsets":[48,64]}}'
printf "\\$(printf %03o ${#weights})"'\0\0\0\0\0\0\0%s' "$weights" >"$work/m.safetensors"
head -c 64 /dev/zero >>"$work/m.safetensors"
printf 'gpuplan: 1\ninput: {shape: [3]}\nlayers:\n  - fc: Linear(3, 4)\n' >"$work/fc.yaml"
expect 0 '2 of 2 parameters of .* are there' import --check "$work/m.safetensors" "$work/fc.yaml"
expect 1 'extra +fc.weight \[4, 3\]' import --check "$work/m.safetensors" $model
expect 3 'is a safetensors file' plan "$work/m.safetensors"
expect 2 '--check needs a model' import --check "$work/m.safetensors"
mkdir "$work/downloaded" && cp $hub/gpt2.json "$work/downloaded/config.json" && cp "$work/m.safetensors" "$work/downloaded/"
expect 1 'extra +fc.weight' import --check "$work/downloaded/m.safetensors"
printf '\0\0\0\0\0\0\0\200{"' >"$work/huge.safetensors"
expect 3 'its header claims 9223372036854775808 bytes' import --check "$work/huge.safetensors" "$work/fc.yaml"

# A spec to go on from.
expect 0 '^name: classifier' init
expect 0 '^  hidden: 1024' init zoo:gpt2_medium
"$gpuplan" init -o "$work/starter.yaml" || fail 'init into a file'
expect 0 '^  Peak ' "$work/starter.yaml" --batch 4
"$gpuplan" init zoo:gpt2_medium -o "$work/medium.yaml" || fail 'a model of the zoo into a file'
expect 0 'Params +354,823,168' "$work/medium.yaml" --batch 1
expect 3 'the zoo has no model' init zoo:gpt3
expect 0 'gpuplan FILE.yaml --batch 8. plans it; --set' init tests/huggingface/gpt2.json
expect 2 'already exists with different contents' init zoo:mlp -o "$work/starter.yaml"
echo 'not a model' | "$gpuplan" init - >"$work/out" 2>&1
[ $? -eq 3 ] && grep -q 'a model spec must be a map' "$work/out" || fail "init - of no model: $(cat "$work/out")"
"$gpuplan" init zoo:mlp -o "$work/starter.yaml" --force || fail 'init with --force'
expect 3 'extends another file by a path relative to its own' init configs/huggingface/bert_masked_lm.yaml \
  -o "$work/bert.yaml"

# Usage errors: 2.
expect 2 'expects a whole number' $model --batch 0
expect 2 'expects a whole number' $model --batch -1
expect 2 'expects a whole number' $model --batch 1e30
expect 2 'expects a value' $model --batch
expect 2 'more than once' $model -b 2 -b 3
expect 2 '--batch expects a value: N' $model --batch ''
expect 2 '--gpu expects a value' $model -b 2 --gpu=
expect 0 '^  Peak ' $model -b 2 --alloc-conf ''
expect 2 '--runtime expects a size' $model --runtime 300
expect 2 'does not fit in 64 bits' $model --runtime '999999999999 TiB'
expect 2 'did you mean "--batch"' $model --bacth 3
expect 2 'did you mean "adam"' $model --opt adma
expect 2 'did you mean "layers"' layer $model
expect 2 'unknown GPU .*rtx4090' $model --gpu rtx4900
expect 2 'a size needs a unit' $model --gpu 24
for flag in --opt=adam --micro-batches=2 --checkpoint=block --optimizer-in-backward --offload=saved --master=fp32; do
  expect 2 ' is for training: leave it out with --mode infer' $model --mode infer "$flag"
done
for flag in --phase=decode --prompt=3 --generate=3 --cache=paged; do
  expect 2 ' needs --mode infer' $model "$flag"
done
expect 2 '--prompt belongs to --phase' $model --mode infer --prompt 3
expect 2 'needs --prompt' $model --mode infer --phase decode
expect 2 'has no variable "seq"' $model --mode infer --phase decode --prompt 3
expect 2 'no KVCache layer' zoo:bert_base --mode infer --phase prefill --prompt 3
expect 3 'generation of a model with an encoder' zoo:t5_small --mode infer --phase prefill --prompt 3
expect 2 '--phase sets seq itself' $model --mode infer --phase decode --prompt 3 --seq 4
expect 2 'does not split into 3 micro-batches' $model -b 8 --micro-batches 3
expect 2 'leave out --precision bf16' $model --amp fp16 --precision bf16
expect 2 'are redundant' $model --amp fp16 --precision amp=fp16
expect 2 '--amp expects fp16 or bf16' $model --amp fp8
expect 2 '--weights int8 stores' $model --precision int8
expect 2 'purely quantized models' $model --weights nf4
expect 2 'cannot be trained: they are for inference' $model --weights int4 --lora r=8
expect 2 'did you mean "targets"' $model --lora r=8,target=fc1
expect 2 'on a model of transformers' $model --lora r=8 --mode infer
expect 2 '--lora is for training' fit $model --lora r=8 --mode infer
expect 0 '"lora": "r=8,alpha=8,targets=all-linear"' $model -b 2 --lora r=8 --weights nf4 --opt adamw_8bit --format json
expect 2 'Unsupported optimizer name: lamb' $model --opt lamb8bit
expect 0 'micro-batches' fit $model --solve micro-batches --batch 8 --gpu t4
expect 2 'did you mean "batch"' fit $model --solve bach --gpu t4
expect 0 'combinations fit' fit $model --batch 8 --gpu t4 --may amp,micro-batches
expect 2 'did you mean "amp"' fit $model --gpu t4 --may ampp
expect 2 'is not for --solve' fit $model --solve batch --gpu t4 --spot
expect 2 '--max-batch is not for --may' fit $model --may amp --gpu t4 --max-batch 8
expect 0 'gpu' fit $model --solve batch --gpu t4 --max-batch 8
expect 2 'the weights are fp32 already' $model --master fp32
expect 2 'did you mean "block"' $model --checkpoint blok
expect 2 'expects a whole number' $model --checkpoint every=0
expect 2 'frees each gradient' $model -b 2 --optimizer-in-backward --micro-batches 2
expect 2 'frees each gradient' $model --optimizer-in-backward --amp fp16
expect 2 'frees each gradient' $model --optimizer-in-backward --clip-grad-norm
expect 2 'did you mean "saved"' $model --offload save
expect 2 'set twice' $model --seq 3 --set seq=4
expect 2 'no variable "nothing"' $model --set nothing=1
expect 2 'NAME=VALUE' $model --set seq
expect 2 'contradict' $model -q -v
expect 2 'models 1.13 and 2.0 to 2.15, not "3.0"' $model --pytorch 3.0
expect 2 'unknown key "foo"' $model -b 2 --alloc-conf foo:1
expect 2 'unknown file extension' $model -o plan.pdf
expect 2 'unexpected argument' $model other.yaml
expect 2 'unexpected argument' -- $model -b 2
expect 2 'no model' plan
expect 2 'no such command: "nope"' help nope
expect 2 'needs --gpus' $model -b 2 --zero 1
expect 2 'cannot be divided equally' $model -b 2 --gpus 3
expect 2 'fsdp' $model -b 2 --gpus 2 --zero 4
expect 0 'rank 1 of 2' $model -b 8 --gpus 2 --zero fsdp --rank 1
expect 0 'all-reduce' $model -b 8 --gpus 2 --gpu h100
for later in '--format=html' '-oreport.html'; do
  expect 2 'cannot write the format html' layers $model -b 2 "$later"
done

# What other tools call it.
for flag in '--bs=8' '--batch-size 8' '--per_device_train_batch_size 8' '-bs 8'; do
  expect 2 'unknown flag .* — did you mean "--batch N"' $model $flag
done
expect 2 'did you mean "--seq N"' zoo:gpt2 --seq-len 128
expect 2 'did you mean "--amp bf16"' $model --bf16
grep -q 'help: fp32 weights under autocast' "$work/err" || fail "what --bf16 means is not told"
expect 2 'did you mean "--checkpoint block"' fit $model --gradient-checkpointing --on t4
expect 2 'did you mean "--micro-batches N"' sweep $model --gradient_accumulation_steps 4
expect 2 'unknown flag --lr: it does not affect the memory of a step' $model --lr 1e-4
expect 2 'did you mean "batch"' sweep $model --over batch_size=1,2
expect 2 'unknown flag --bs$' gpus --bs 8
echo 'import torch' >"$work/train.py"
expect 3 "train.py is a Python script, not a model" "$work/train.py" --batch 8
grep -q 'help: .*train.py:NAME; .* gpuplan shadow -- python .*train.py' "$work/err" || fail "what to do with a script is not told"
for name in 5090 'RTX 5090' 5090-32g; do expect 0 'fits NVIDIA GeForce RTX 5090' $model -b 64 --gpu "$name"; done
expect 0 'fits NVIDIA GeForce RTX 3090 Ti' $model -b 64 --gpu 3090ti
for size in 24G '24 gb' 24GB; do expect 0 "fits a limit of $size .22,888 MiB" $model -b 64 --gpu "$size"; done

# What stays free, and what is taken on trust.
expect 0 'fits NVIDIA T4 .15,095 MiB less 5 %.: ' $model -b 64 --gpu t4 --margin 5%
expect 1 'does not fit NVIDIA T4 .15,095 MiB less 99.5 %.: ' $model -b 64 --gpu t4 --margin 99.5%
expect 0 '"fits": false' layers $model -b 64 --gpu t4 --margin 99.5% --format json
expect 0 '"margin": 0.05' $model -b 64 --gpu t4 --margin 5% --format json
expect 0 '"fits": null' $model -b 64 --format json
expect 0 '"id": "context"' $model -b 64 --format json
expect 0 ' ✖ ' sweep $model --over batch=64,128 --gpu t4 --margin 99.5%
expect 1 'T4' check $model -b 64 --fits t4 --margin 99.5%
expect 2 '--margin needs GPUs that the step must fit' check $model -b 64 --max-peak 8GiB --margin 5%
expect 2 'the checks of gpuplan.yaml say it themselves|belongs to a check' check --config configs/budgets/gpuplan.yaml --margin 5%
expect 2 "--margin needs a GPU" $model -b 64 --margin 5%
expect 0 '"usable_bytes":15828320256,"limit_bytes":15036904244' sweep $model --over gpu=t4,l4 -b 64 --margin 5% --format jsonl
for command in plan layers 'sweep --over batch=1,2' 'check --fits t4'; do
  expect 2 '--margin expects a percentage from 0% to below 100%' $command $model --gpu t4 --margin 5
done
expect 0 '^  tokens (not )?packed' zoo:gpt2 --seq 8
expect 0 '^  tokens packed' zoo:gpt2 --seq 8 --set packed=1
expect 0 '^  tokens not packed · checkpoint block' zoo:gpt2 --seq 8 --set packed=0 --checkpoint block
printf 'gpuplan: 1\ninput: {shape: [3]}\nlayers:\n  - fc: Linear(3, 4)\n' >"$work/bare.yaml"
expect 0 '^  CrossEntropyLoss assumed' "$work/bare.yaml"
grep -q 'the spec has no "loss:"' "$work/err" || fail "no warning of a missing loss"
expect 1 '^  Peak ' "$work/bare.yaml" --gpu t4 --strict

# Sweeps: a plan for every combination, in any number of parts.
expect 0 '^ +batch +gpu +peak' sweep $model --over batch=1:4:x2 --over gpu=t4,l4
expect 0 '^ +4 +l4 .* ✔ ' sweep $model --over batch=1:4:x2 --over gpu=t4,l4
expect 0 '^0,2,adam,[0-9]+' sweep $model --over batch=2,4 --over opt=adam,sgd --format csv
expect 0 '"over":\{"precision":"amp-bf16"\},' sweep $model -b 2 --over precision=fp32,amp-bf16 --format jsonl
expect 0 '^ +batch .* per step +step +samples/s +peak at' sweep $model --over batch=1,2 --gpu t4
expect 0 '^ +batch .* per step +peak at' sweep $model --over batch=1,2 --gpu '8 GiB'
expect 0 '"step_seconds":0\.' sweep $model -b 2 --over gpu=t4,l4 --host-copy none --format jsonl
swept='sweep zoo:mlp --over batch=32:512:x2 --over opt=sgd,adam --format jsonl'
for part in 1 2 3; do "$gpuplan" $swept --shard $part/3; done | sort -t: -k3,3n >"$work/parts"
"$gpuplan" $swept | cmp -s - "$work/parts" || fail 'the parts of a sweep are not the whole'
expect 0 '^ +gpus +zero .* a rank sends +communication +scaling ' sweep $model -b 8 --gpus 2,4 --zero ddp,fsdp --gpu a100
expect 0 '^3,4,fsdp,[0-9]+' sweep $model -b 8 --over gpus=2:4:x2 --over zero=ddp,fsdp --format csv
expect 0 '"sent_bytes":0,' sweep $model -b 8 --gpus 1,2 --format jsonl
expect 2 'no flag to sweep' sweep $model -b 8 --gpus 2
expect 2 'cannot be divided equally among 3 ranks' sweep $model -b 8 --gpus 1,3
expect 2 'did you mean "pinned"' sweep $model --over gpu=t4,l4 --host-copy pined
expect 2 'did you mean "none"' sweep $model --gpu t4 --over host-copy=pinned,nonne
"$gpuplan" sweep $model --over batch=2,4 --gpu '8 GiB' 2>&1 >/dev/null | grep 'only a memory limit.*(2 points)' >/dev/null || fail "a sweep's limit"
expect 0 'gpuplan.sweep/1' schema sweep
expect 0 'does not split into 2' sweep $model --over batch=1,2 --over micro-batches=1,2
for part in 1 2 3; do
  "$gpuplan" sweep $model --over batch=1:20 --shard $part/3 --format jsonl 2>"$work/err" || fail "shard $part"
done | sort >"$work/parts"
"$gpuplan" sweep $model --over batch=1:20 -j 3 -o "$work/all.jsonl" >/dev/null 2>"$work/err" || fail 'a sweep into a file'
sort "$work/all.jsonl" | cmp -s - "$work/parts" || fail 'three shards are not the whole sweep'
"$gpuplan" sweep $model --over batch=2,4 2>&1 >/dev/null | grep 'no --gpu.*(2 points)' >/dev/null || fail "a sweep's warnings"
expect 2 'no flag to sweep' sweep $model
expect 2 'did you mean "batch"' sweep $model --over bach=1
expect 2 'did you mean "adam"' sweep $model --over opt=sgd,adma
expect 2 'did you mean "l4' sweep $model --over gpu=t4,l44
expect 2 'a range is FROM:TO' sweep $model --over batch=1:x2
expect 2 'contradicts the given batch 3' sweep $model --over batch=1,2 --batch 3
expect 2 'there are the shards 1/4 to 4/4' sweep $model --over batch=1,2 --shard 5/4
expect 2 'put the model into a file' sweep - --over set.classes=1,2
expect 2 'no variable "nothing"' sweep $model --over set.nothing=1,2
expect 3 'has no native fp8' sweep $model --mode infer --over weights=fp8 --gpu a100-40gb
expect 4 'cannot be written there' sweep $model --over batch=1 -o "$work/no/such/folder.jsonl"

# Fits: 0 with the arguments alone under -q, 1 where nothing fits.
export SOURCE_DATE_EPOCH=1795305600  # 2026-11-22
expect 0 '^  t4 +15,095 +152 +14.7 GiB +128 ' fit zoo:resnet50 --opt adam --on t4,l4
expect 0 '✔ lowest cost per sample' fit zoo:resnet50 --opt adam --on t4,l4 --provider aws,gcp
expect 0 ' USD/epoch +run +USD/run' fit zoo:resnet50 --opt adam --on t4,l4 --samples 1.28M --epochs 90
expect 0 '"usd_per_epoch": [0-9]' fit zoo:resnet50 --opt adam --on t4,l4 --samples 1.28M --format json
for amount in 0 -1 nan 1.28MM 1e30; do expect 2 '--samples expects an amount above 0' fit $model --on t4 --samples="$amount"; done
expect 2 'produces one token per sample' fit zoo:gpt2 --mode infer --phase decode --prompt 64 --on t4 --samples 1M
expect 1 'no change or pair of changes makes it fit; the closest' zoo:llama3_8b --gpu l4 -b 64 --precision bf16 --opt adamw
expect 1 '^  Runs +only because the allocator releases its cache: 6 retries in three steps' zoo:resnet50 --opt adam -b 170 --gpu t4
expect 2 'NVIDIA B300 .*is not known' layers $model -b 64 --gpu b300 --time
expect 0 'not compared, since their step time is not known: b300' fit $model --on b300,h100
expect 2 'give both' fit $model --on t4 --epochs 90
expect 0 'samples/s' $model -b 64 --gpu t4
expect 2 'need a named GPU' layers $model -b 64 --time
expect 0 '^  conv1 .* compute|^  conv1 .* memory' layers zoo:resnet50 -b 64 --gpu t4 --time
expect 0 'each of these changes alone is faster' layers zoo:resnet50 -b 64 --gpu t4 --time
expect 0 '"kind": "precision"' layers zoo:resnet50 -b 64 --gpu t4 --time --format json
expect 0 'flops_per_byte' layers zoo:resnet50 -b 64 --gpu t4 --time --format csv
expect 0 "above 100 %: Winograd convolution" layers zoo:vgg16 -b 16 --gpu gtx1080ti --roofline
expect 0 'fp32 +8\.14 TFLOP/s +from 25\.4 FLOP/byte on' layers zoo:resnet50 -b 64 --gpu t4 --roofline
expect 0 '^ +100 GF/s \+' layers zoo:resnet50 -b 64 --gpu t4 --roofline --ascii
expect 2 'need a named GPU' layers $model -b 64 --roofline
expect 2 'need a named GPU' layers $model -b 64 --roofline --gpu '4 GiB'
expect 2 'SVG files need --roofline' layers $model --gpu t4 -o "$work/roofline.svg"
[ ! -e "$work/roofline.svg" ] || fail "a drawing that nobody asked for"
expect 0 'Roofline' layers zoo:resnet50 -b 64 --gpu t4 --roofline -o "$work/roofline.svg" -o "$work/layers.csv"
grep -q '<svg ' "$work/roofline.svg" || fail "no drawing"
[ -s "$work/layers.csv" ] || fail "no table beside the drawing"
expect 4 'cannot write' layers zoo:resnet50 -b 64 --gpu t4 --roofline -o /nowhere/roofline.svg
expect 0 'Time +not known: ' $model -b 64 --gpu b300
expect 1 'per step, if it fit' zoo:gpt2 -b 64 --gpu t4
expect 0 'per token · [0-9.,]+ tokens/s · ' zoo:gpt2 --mode infer --phase decode --prompt 64 --gpu t4
expect 0 'scaling efficiency' zoo:resnet50 -b 64 --gpu a100 --gpus 4
expect 0 'Time +not known: the link between the GPUs' zoo:resnet50 -b 64 --gpu a100 --gpus 16
expect 0 '"step_seconds": 0\.' $model -b 64 --gpu t4 --format json
head -c 5000000 /dev/zero | tr '\0' x >"$work/big.csv"
expect 3 'has 1 field|neither a SkyPilot' instances import "$work/big.csv" --provider aws
printf '\xef\xbb\xbfInstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\r\n' >"$work/excel.csv"
printf 'g5.xlarge,A10G,1,4,16,"{}",1.006,,us-east-1,a\r\n' >>"$work/excel.csv"
expect 0 '^aws,g5.xlarge,a10g,1,4,16,' instances import "$work/excel.csv" --provider aws
expect 2 'has a line break' instances import "$work/excel.csv" --provider $'a\nb'
printf '"g5\033[31m",A10G,1,4,16,"{}",1.006,,us-east-1,a\n' >>"$work/excel.csv"
expect 3 'a control character in a field' instances import "$work/excel.csv" --provider aws
expect 2 '--host-copy' $model --gpu t4 --host-copy fast
expect 0 'prices are older than 90 days' fit zoo:resnet50 --opt adam --on t4
expect 0 '^--batch 152 --gpu t4$' fit zoo:resnet50 --opt adam -d t4 -q
expect 0 '^--batch 100 --gpu t4$' fit zoo:resnet50 --opt adam -d t4 -q --max-batch 100
expect 0 '^--batch 152 --gpu t4$' fit --opt adam -d t4 -q --max-batch zoo:resnet50
expect 0 'USD/run' fit zoo:resnet50 --opt adam --on t4,l4,a100-40g --max-batch --provider aws --budget 5usd/h \
  --samples 1.28M --epochs 90
expect 2 '--batch expects a value: N' zoo:resnet50 --batch --opt adam
expect 3 'has no native bf16' sweep zoo:mlp --over batch=8,16 --precision bf16 --strict --gpu t4
expect 2 '--on expects a value: GPU' fit zoo:resnet50 --on -q
{ "$gpuplan" fit zoo:llama3_70b --on t4 -q 2>&1 >/dev/null || true; } | grep 'GiB more than NVIDIA T4 has' >/dev/null ||
  fail 'fit -q says nothing'
expect 2 'they are not known for 22 GiB' fit zoo:resnet50 --gpu '22 GiB' --samples 1M
expect 0 '^--batch [0-9]+ --gpu 22GiB$' fit zoo:resnet50 -d '22 GiB' -q
expect 0 '✔ fits NVIDIA T4' zoo:resnet50 --opt adam $("$gpuplan" fit zoo:resnet50 --opt adam -d t4 -q)
expect 0 '^  too small: ' fit zoo:resnet50 --opt adam --batch 200
expect 0 '"schema": "gpuplan.fit/1"' fit $model --on t4 --format json
expect 0 '^t4,NVIDIA T4,' fit $model --on t4 --format csv
expect 0 'gpuplan.fit/1' schema fit
expect 1 '^  ✖ batch 64 needs 7.04 GiB, 4.04 GiB more' fit zoo:resnet50 --opt adam --batch 64 -d '3 GiB'
expect 1 '^    --gpu ' fit zoo:resnet50 --opt adam --batch 64 -d '3 GiB'
expect 1 '^  ✖ batch 2 needs [0-9]+ MiB, ' fit $model -d '400 MiB' # its batch norm wants two samples
expect 1 'budget leaves no instance with it' fit $model --on t4 --budget 0.001usd/h
"$gpuplan" fit zoo:resnet50 --opt adam --batch 64 -d '3 GiB' -q >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && [ ! -s "$work/out" ] || fail 'where nothing fits, -q prints something'
expect 2 'unknown GPU "l44" — did you mean "l4' fit $model --on t4,l44
expect 2 'that is an instance of aws, which has 8 x a100-40gb' fit $model --on p4d.24xlarge
expect 2 'instance of azure, which has 1 x a100-pcie-80gb' gpus standard_nc24ads_a100_v4
expect 2 "all from NVIDIA" gpus mi300x
expect 0 '^NVIDIA L4 ' gpus l4-24g
expect 0 'fits NVIDIA V100 SXM2 16GB' $model -b 64 --gpu nvidia-tesla-v100-sxm2-16gb
expect 2 'names t4 twice' fit $model --on t4,tesla-t4
expect 2 'give only one of them' fit $model --on t4 --gpu l4
expect 2 'did you mean "aws"' fit $model --on t4 --provider awss
expect 2 'did you mean "us-east-1"' fit $model --on t4 --region us-east-2
for amount in 0usd/h -1usd/h nanusd/h 5 5eur/h; do
  expect 2 'expects US dollars an hour above 0' fit $model --on t4 --budget=$amount
done
expect 0 "^    - infra: 'aws/us-east-1'" fit zoo:resnet50 --opt adam --on t4 --provider aws --emit sky
expect 0 'tools/run validate zoo:resnet50 --batch 152 --opt adam -o' fit zoo:resnet50 --opt adam --on t4 --emit sky
expect 0 '^#SBATCH --gres=gpu:t4:1' fit zoo:resnet50 --opt adam --on t4 --emit slurm
"$gpuplan" fit zoo:mlp -b 64 --on t4 --emit sky -o "$work/task.yaml" >"$work/out" || fail 'a task for SkyPilot is not written'
grep -q '^name: gpuplan-mlp' "$work/task.yaml" && [ ! -s "$work/out" ] || fail 'a task for SkyPilot is not in its file'
"$gpuplan" fit zoo:resnet50 --opt adam --on t4 --emit slurm | bash -n || fail 'a job for Slurm is no script'
odd="$work/it's a \"net\" \$(touch pwned) \`id\`.yaml"
cp $model "$odd"
"$gpuplan" fit "$odd" --on t4 --emit slurm >"$work/job.sh" 2>"$work/err" || fail 'a job of an odd file'
(cd "$work" && mkdir -p tools && printf '#!/bin/sh\nprintf "%%s\\n" "$2"\n' >tools/run && chmod +x tools/run && bash job.sh) >"$work/out"
[ "$(cat "$work/out")" = "$odd" ] && [ ! -e "$work/pwned" ] || fail "a job does not name its file: $(cat "$work/out")"
if command -v shellcheck >/dev/null; then shellcheck -S warning "$work/job.sh" || fail 'shellcheck of a job'; fi
cp $model "$work/two
lines.yaml"
expect 2 'cannot hold a line break' fit "$work/two
lines.yaml" --on t4 --emit slurm
printf 'extends: %s\nname: more\n' "$(realpath $model)" >"$work/more.yaml"
expect 2 'extends other files' fit "$work/more.yaml" --on t4 --emit sky
expect 2 'a kind of GPU, not a size' fit $model -d '22 GiB' --emit sky
expect 0 '^  8 × l4 +DDP ' fit zoo:resnet50 --opt adam --on l4 --gpus 1,8
expect 0 '^  4 × l4 +FSDP2 ' fit zoo:resnet50 --opt adam --on l4 --gpus 4 --zero ddp,fsdp
expect 0 '^--batch [0-9]+ --gpu h100 --gpus 8 --zero fsdp$' fit zoo:resnet50 --opt adam --on h100 --gpus 8 --zero fsdp -q
expect 0 '^--batch [0-9]+ --gpu t4 --gpus 1$' fit zoo:resnet18 --opt adam --on t4 --gpus 1 -q
expect 0 '^--batch [0-9]+ --gpu t4$' fit zoo:resnet18 --opt adam --on t4 -q
expect 0 '^  t4 +DDP ' fit zoo:resnet18 --opt adam --on t4 --gpus 1,2
expect 0 '^  16 × h100 .* 2 × ' fit zoo:resnet50 --opt adam --on h100 --gpus 16 --network 3200
expect 0 'one GPU is not enough' fit zoo:llama3_8b --opt adamw --precision bf16 --on h100
expect 0 'prices include idle GPUs' fit zoo:resnet50 --opt adam --on h200 --provider aws
expect 0 ' fits NVIDIA H100' zoo:llama3_8b --opt adamw --precision bf16 $("$gpuplan" fit zoo:llama3_8b --opt adamw --precision bf16 --on h100 -q)
expect 0 'usable × 95 %' fit zoo:resnet50 --opt adam --on t4 --margin 5%
expect 0 '^--batch 1[0-4][0-9] --gpu t4$' fit zoo:resnet50 --opt adam --on t4 --margin 5% -q
for margin in 5 100% -1% nan% 5%% ''; do expect 2 '--margin' fit $model --on t4 --margin="$margin"; done
expect 2 '104 is the next one' fit $model --on t4 --gpus 8 --batch 100
printf 'provider,instance_type,gpu,gpu_count,network_gbps,on_demand_usd_per_hour,price_date\naws,x,t4,1,5,0.5,2026-11-01\n' \
  >"$work/apart.csv"
expect 0 '^  2 × t4 ' fit $model --on t4 --gpus 2 --network 2.5
expect 0 '^--batch 64 --gpu t4 --gpus 2 --gpus-per-node 1 --network 5$' \
  fit zoo:resnet50 --batch 64 --on t4 --gpus 2 --provider aws --prices "$work/apart.csv" -q
expect 0 '^  +gradients +all-reduce +97.5 MiB +164 ms ' zoo:resnet50 --batch 64 --gpu t4 --gpus 2 --gpus-per-node 1 --network 5
expect 2 'above 0 and up to 1M' fit $model --on t4 --gpus 2 --network 0
expect 2 'up to 1000B' fit $model --on t4 --samples 1e300
expect 2 '--gpus any cannot be combined with numbers' fit $model --on t4 --gpus 1,any
expect 2 '--gpus has 2 twice' fit $model --on t4 --gpus 2,2
expect 2 'needs --gpus' fit $model --on t4 --zero fsdp
expect 2 'did you mean "fsdp"' fit $model --on t4 --gpus 2 --zero fdsp
expect 2 'planned with tensor and context parallelism alone' fit $model --on t4 --gpus 2 --mode infer
expect 0 '^#SBATCH --gres=gpu:t4:2' fit $model --on t4 --gpus 2 --emit slurm
expect 0 '^torchrun --standalone --nproc-per-node=2 \$TRAIN$' fit $model --on t4 --gpus 2 --batch 64 --emit slurm
expect 0 '^#   gpuplan /.*/mlp.yaml --batch 64 --gpu t4 --gpus 2$' \
  fit $model --on t4 --gpus 2 --batch 64 --emit slurm
"$gpuplan" fit zoo:resnet50 --opt adam --on h100 --gpus 16 --emit slurm >"$work/nodes.sh"
bash -n "$work/nodes.sh" || fail 'a job of two nodes is no script'
expect 0 '^#SBATCH --nodes=2' fit zoo:resnet50 --opt adam --on h100 --gpus 16 --emit slurm
expect 2 'cannot be divided equally among 2 instances' fit $model --on h100 --gpus 9 --emit slurm
expect 0 "^      accelerators: 'T4:2'" fit zoo:resnet50 --on t4 --gpus 2 --provider gcp --emit sky
expect 0 '^  TRAIN: null' fit zoo:resnet50 --on t4 --gpus 2 --provider gcp --emit sky
"$gpuplan" fit $model --on t4,l4 --width 80 >"$work/narrow.txt" || fail 'fit --width'
[ "$(awk 'NR == 3 { print length($0) }' "$work/narrow.txt")" -le 80 ] || fail 'fit --width 80 is wider'
expect 0 'power of two' fit $model --on t4,l4
for flag in --bytes '--units si' '--width 80'; do
  # shellcheck disable=SC2086
  expect 2 'units in its heading' gpus $flag
  # shellcheck disable=SC2086
  expect 2 'units in its heading' instances --gpu l4 $flag
done
expect 2 'leave --format and -q out' fit $model --on t4 --emit sky -q
expect 2 'gpuplan plan MODEL \$\(gpuplan fit MODEL \.\.\. -q\) --emit torchrun' fit $model --on t4 --emit torchrun
expect 3 'SkyPilot offers no instance' fit $model --on rtx2060 --emit sky
expect 0 'ZeRO-2' fit zoo:gpt2 --on l4 --gpus 4 --zero 2
grep -q "DeepSpeed's buffers" "$work/err" || fail 'fit of ZeRO-2 has no warning'
expect 1 'ZeRO-3' fit zoo:gpt2 --on l4 --gpus 4 --zero 3 --strict
expect 0 "DeepSpeed's buffers and" fit zoo:gpt2 --on l4 --gpus 4 --zero 3 --format json
expect 2 'is more than --max-batch' fit $model --on t4 --batch 5 --max-batch 4
expect 2 'unexpected argument' fit $model other.yaml
expect 3 'T4 has no native bf16' fit $model --on t4,l4 --precision bf16
printf 'provider,instance_type,gpu,gpu_count,on_demand_usd_per_hour,price_date\naws,x,t4,1,%s,2026-11-01\n' 0 >"$work/free.csv"
expect 3 'above 0' fit $model --on t4 --prices "$work/free.csv"
unset SOURCE_DATE_EPOCH

expect 1 '^    --gpus [0-9]+ --zero fsdp +[0-9.]+ GiB' zoo:gpt2_medium --batch 32 --opt adamw --gpus 4 --gpu '8 GiB'

# Stages of tensor and pipeline parallelism: a verdict as of a plan, and no flag that is silently nothing.
stages="zoo:gpt2_medium --batch 64 --gpus 16 --tp 2 --pp 4 --micro-batches 8 --zero 1"
expect 0 '^  Needs +7\.66 GiB +total device memory' $stages
expect 0 '^gpt2_medium · train · batch 64 · bf16 with fp32 master copies · adam$' $stages
expect 0 'batch 64 · fp16 with fp32 master copies' $stages --gpu t4
expect 1 'emulated|^  Needs' $stages --gpu t4 --precision bf16 --strict
expect 0 '^  Needs +7\.14 GiB +✔ fits NVIDIA T4 \(15,095 MiB\): 48 %' $stages --gpu t4 --strict
expect 0 '^  Needs +6\.55 GiB' $stages --gpu t4 --runtime 0
expect 1 '✖ does not fit a limit of 6 GiB' $stages --gpu '6 GiB' -q
expect 0 'fp16 with fp32 master copies · adamw' $stages --opt adamw --precision fp16
for flag in '--opt sgd' '--opt amsgrad' '--precision fp32' '--precision tf32' '--rank 1' '--amp bf16' '--layout nhwc' \
  '--loop function' '--checkpoint every=2' '--bucket-view' '--clip-grad-norm' '--alloc-conf x:1' \
  '--host-copy none' '--offload saved' '--depth 1' '--mode infer' '--zero fsdp' '--format csv' '--count-as torch'; do
  # shellcheck disable=SC2086
  [[ $flag != '--mode infer' ]] || stages="zoo:gpt2_medium --batch 64 --gpus 16 --tp 2 --pp 4"
  expect 2 "${flag%% *}|as a table or as JSON" $stages $flag
done
stages="zoo:gpt2_medium --batch 64 --gpus 16 --tp 2 --pp 4 --micro-batches 8 --zero 1 --gpu a100-80gb"
expect 0 'Time +not known: the link between the GPUs is not' $stages
expect 0 'Time .* per step .* samples/s .* tokens/s in total · modelled' $stages --network 800
expect 0 'Scales +[0-9.]+ % scaling efficiency' $stages --network 800
expect 0 '^  PP activations +send ' $stages --network 800
expect 0 '"schema": "gpuplan.stages/1"' $stages --format json
expect 0 '"why_no_time": "the link' $stages --format json
expect 0 '"gpuplan.stages/1"' schema stages

# How GPUs share a step.
expect 0 '^ +gradients +all-reduce ' $model -b 64 --gpus 4 --gpu t4 --link 7.875
expect 2 '--link expects at least 0.001 GB/s' $model -b 64 --gpus 4 --gpu t4 --link 1e-300
expect 2 '--link needs --gpus' $model -b 64 --gpu t4 --link 8
mesh="fit tests/parallel/models/llama.json --seq 128 --gpu h100 --batch 32"
expect 0 '^ +--zero ddp ' $mesh --gpus 4 --may mesh
expect 0 '--pp 4 --pp-schedule 1f1b,outputs=drop --micro-batches' $mesh --gpus 4 --may mesh,micro-batches --format csv
expect 0 'each is a plan: gpuplan MODEL --gpus 4' $mesh --gpus 4 --may mesh
expect 0 '^--' $mesh --gpus 4 --may mesh,checkpoint -q
expect 0 'times are not known \(--network for more than one node\)' $mesh --gpus 16 --may mesh
expect 0 'the fastest: ' $mesh --gpus 16 --may mesh --network 400
expect 2 'needs a number of GPUs' $mesh --may mesh
expect 0 '^  [0-9]+ of 2 offers fit' $mesh --gpus 2,4 --may mesh
expect 0 'of 10 offers fit' $mesh --gpus any --may mesh
expect 0 'joined where their network is published' $mesh --gpus any --may mesh
expect 0 '^--batch 32 --gpu (l4|h100)' ${mesh/--gpu h100/} --on l4,h100 --gpus any --may mesh,checkpoint -q
expect 2 'no instance with these GPUs matches' ${mesh/h100/22GiB} --gpus any --may mesh
expect 1 'more GPUs may fit' fit zoo:llama3_70b --seq 512 --precision bf16 --batch 8 --on t4 --gpus 4 --may mesh
expect 2 'compares steps of one batch' ${mesh% --batch 32} --gpus any --may mesh
expect 2 'is not for --may mesh' $mesh --gpus any --may mesh --emit sky
expect 2 'not with lora' $mesh --gpus any --may mesh,lora
# Each row is a plan by itself, and its lines keep to a narrow terminal.
"$gpuplan" $mesh --gpus any --may mesh,checkpoint --format csv | tail -n +2 >"$work/rows"
while IFS=, read -r _ _ gpus _ _ _ rest; do
  [ "$gpus" -gt 1 ] || continue
  flags=$(sed -E 's/^("([^"]*)"|([^,]*)),.*/\2\3/' <<<"$rest")
  needs=$(sed -E 's/^("[^"]*"|[^,]*),[0-9]+,[0-9]+,([0-9]+),.*/\2/' <<<"$rest")
  [ "$("$gpuplan" tests/parallel/models/llama.json --seq 128 --batch 32 $flags --format json | grep -o '"device_bytes": [0-9]*' | head -n 1)" = \
    "\"device_bytes\": $needs" ] || fail "a row that is another plan: $flags"
done <"$work/rows"
[ -z "$("$gpuplan" $mesh --gpus any --may mesh,checkpoint --width 80 --ascii | awk 'length > 80')" ] || fail 'offers are wider than the terminal'
for part in 1 2 3; do "$gpuplan" $mesh --gpus any --may mesh --shard $part/3 --format json >"$work/part$part" || fail "part $part"; done
"$gpuplan" $mesh --gpus any --may mesh --format json >"$work/whole"
"$gpuplan" fit --join "$work"/part[123] --format json | cmp -s - "$work/whole" || fail 'the parts of a search are not the whole'
expect 0 'of 10 offers fit' fit --join "$work/part1" "$work/part2" "$work/part3"
expect 0 '^--batch 32 --gpu h100' fit --join "$work/part1" "$work/part2" "$work/part3" -q
expect 2 'part1 is given more than once' fit --join "$work/part1" "$work/part2" "$work/part3" "$work/part1"
cp "$work/part1" "$work/again"
expect 3 'both have point 0' fit --join "$work/part1" "$work/again"
"$gpuplan" $mesh --gpus any --may mesh,checkpoint --shard 2/3 --format json >"$work/another" || fail 'another part'
expect 3 'are not parts of one search' fit --join "$work/part1" "$work/another" "$work/part3"
expect 3 'these are none' fit --join "$work/whole"
sed 's/"step_seconds":[0-9][0-9.e-]*/"step_seconds":null/' "$work/part1" >"$work/untimed"
expect 3 'untimed: line [0-9]+: step_seconds is missing' fit --join "$work/untimed" "$work/part2" "$work/part3"
sed 's/"error":"[^"]*"/"error":null/' "$work/part1" >"$work/silent"
expect 3 'silent: line [0-9]+ has neither figures nor an error' fit --join "$work/silent" "$work/part2" "$work/part3"
# Of one number of GPUs, parts say all that the whole search says.
for part in 1 2 3; do "$gpuplan" $mesh --gpus 4 --may mesh --shard $part/3 --format json >"$work/ways$part" || fail "ways $part"; done
"$gpuplan" $mesh --gpus 4 --may mesh >"$work/ways"
"$gpuplan" fit --join "$work"/ways[123] | cmp -s - "$work/ways" || fail 'the parts of a search for ways are not the whole'
cat "$work/ways1" "$work/ways1" >"$work/twice"
expect 3 'twice: line [0-9]+ has point 0 again' fit --join "$work/twice" "$work/ways2" "$work/ways3"
expect 3 'points are in none of these files' fit --join "$work/part1" "$work/part3"
expect 2 'leave out --gpu' fit --join "$work/part1" --gpu h100
expect 2 'is of --may' $mesh --shard 1/2
expect 0 'a part, of [0-9]+ points' $mesh --gpus 4 --may mesh --shard 2/3
expect 2 'not with lora' $mesh --gpus 4 --may mesh,lora
expect 2 'is not for --may' $mesh --gpus 4 --may amp
expect 2 'without mesh' $mesh --fsdp reshard=false --may amp

# What starts a plan.
started="$model -b 64 --gpus 4 --gpu h100"
expect 0 'DistributedDataParallel\(model, device_ids=\[local_rank\]\)' $started --emit torchrun
expect 0 '^    raise NotImplementedError' $started --zero fsdp --emit torchrun
expect 0 'transformers.LlamaConfig\(vocab_size=128256, ' zoo:llama3_8b -b 4 --seq 512 --gpus 4 --tp 2 --zero fsdp --gpu h200 --emit torchrun
expect 0 'model_registry\("8B"' zoo:llama3_8b -b 8 --seq 512 --opt adamw --gpus 8 --fsdp param=bf16,reduce=fp32 --gpu h200 --emit torchtitan
expect 0 '^  --recompute-granularity full' zoo:gpt2 -b 64 --gpus 8 --tp 2 --pp 2 --micro-batches 4 --checkpoint block --gpu h100 --emit megatron
expect 0 'from_pretrained\("/.*/llama.json"\)' tests/parallel/models/llama.json -b 4 --seq 128 --gpus 4 --gpu h100 --emit torchrun
expect 0 '^    raise NotImplementedError' tests/parallel/models/llama.json -b 4 --seq 128 --set packed=1 --gpus 4 --gpu h100 --emit torchrun
expect 2 'did you mean "torchrun"' $started --emit torchrum
expect 2 '--emit torchtitan has no words for --zero ddp' $started --emit torchtitan
expect 2 'has no words for --lora' zoo:llama3_8b --lora r=8 --precision bf16 -b 4 --seq 512 --gpus 4 --zero fsdp --gpu h200 --emit torchrun
expect 2 'Llama 3 of 1B, 3B, 8B, 70B and 405B' zoo:gpt2 -b 8 --opt adamw --gpus 4 --gpu h100 --fsdp param=bf16,reduce=fp32 --emit torchtitan
expect 2 '--emit deepspeed writes .json' $started --precision bf16 --zero 3 --emit deepspeed -o "$work/launch.py"
expect 2 'has no words for one GPU' $model -b 64 --gpu h100 --emit torchrun
expect 2 'leave --format, --timeline and -q out' $started --emit torchrun -q
"$gpuplan" zoo:gpt2 -b 64 --gpus 4 --gpu '2 GiB' --emit torchrun >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && [ ! -s "$work/out" ] && grep -q 'writes nothing of a plan that does not fit' "$work/err" ||
  fail 'a plan that does not fit is started'
"$gpuplan" $started --emit torchrun -o "$work/launch.py" >"$work/out" || fail 'no script for torchrun'
grep -qx "torchrun --standalone --nproc-per-node 4 $work/launch.py" "$work/out" || fail "the command of a script: $(head -n 1 "$work/out")"
expect 2 '--force' $started --emit torchrun -o "$work/launch.py"
! command -v python3 >/dev/null || python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$work/launch.py" || fail 'a script that is no Python'
"$gpuplan" zoo:gpt2 -b 64 --gpus 8 --tp 2 --pp 2 --micro-batches 4 --gpu h100 --emit megatron 2>"$work/err" | bash -n || fail 'arguments of Megatron-LM are no script'
# DeepSpeed's config is read back as the same plan.
for flags in '--zero 2 --precision bf16 --micro-batches 2' '--zero 3 --precision fp16 --clip-grad-norm' '--zero 3 --precision bf16'; do
  left=$(sed -E 's/--(zero|micro-batches|precision) [a-z0-9]+//g; s/--clip-grad-norm//' <<<"$flags")
  "$gpuplan" zoo:gpt2 -b 16 --opt adamw --gpus 4 --gpu h100 $flags --emit deepspeed -o "$work/ds.json" >"$work/out" || fail "no config: $flags"
  "$gpuplan" zoo:gpt2 -b 16 --opt adamw --gpus 4 --gpu h100 $flags >"$work/planned"
  "$gpuplan" zoo:gpt2 --opt adamw --gpus 4 --gpu h100 $left --deepspeed "$work/ds.json" >"$work/again"
  cmp -s "$work/planned" "$work/again" || fail "the config of $flags is another plan: $(diff "$work/planned" "$work/again" | head -n 4)"
done


# Stages as torch.distributed.pipelining runs them.
cut="tests/parallel/models/llama.json --seq 512 --opt adamw --gpu h200 --batch 8"
piped="$cut --micro-batches 4 --gpus 4 --pp 4 --pp-schedule"
shared="$cut --micro-batches 4 --gpus 8 --pp 4 --pp-schedule"
expect 0 '^  pipeline of 4 stages, 1F1B · rank 3 of 4 · batch 8$' $piped 1f1b
expect 0 '^  keeps    the outputs of all micro-batches' $piped 1f1b
expect 0 'waiting for other stages' $piped 1f1b
expect 0 '^  stage    1 of 4 · blocks 2 to 3 of 6 · up to 4 of 4 micro-batches in flight$' $piped gpipe --rank 1
expect 0 '^  stage    0 of 4 · block 0 of 6 ' $piped 1f1b,split=1/2/2/1 --rank 0
expect 0 '^  stage    1 of 4 · blocks 1 to 2 of 6 ' $piped 1f1b,split=torchtitan --rank 1
expect 0 '^  pipeline of 4 stages, GPipe · FSDP2 · rank [0-9] of 8 ' $shared gpipe,outputs=drop --fsdp reshard=false
expect 0 '"micro_batches_in_flight": 3' $piped 1f1b --rank 1 --format json
expect 0 '"pipeline": null' zoo:lenet --batch 8 --gpus 2 --format json
looped="$cut --micro-batches 4 --gpus 3 --pp 3 --pp-schedule"
expect 0 '^  pipeline of 6 stages, interleaved 1F1B · rank 0 of 3 · batch 8$' $looped interleaved1f1b --rank 0
expect 0 '^  stages   1 and 4 of 6 · blocks 1 and 4 of 6 · up to 7 of 8 forwards held, of 4 micro-batches$' $looped interleaved1f1b,stages=2 --rank 1
expect 0 '^  keeps    the outputs of all micro-batches' $looped loopedbfs --rank 2
expect 0 'this rank does not wait for others' $looped loopedbfs
expect 0 '"stage": 4' $looped interleaved1f1b --rank 1 --format json
expect 0 'looped BFS · FSDP2 · rank 4 of 6 ' ${looped/--gpus 3/--gpus 6} loopedbfs,stages=2 --fsdp reshard=false --rank 4
expect 2 'has one stage a rank' $piped 1f1b,stages=2
expect 2 'must be at least 1|from 1 to' $looped interleaved1f1b,stages=0
expect 2 'multiple of the number of rounds .2., but got 7' ${cut/--batch 8/--batch 7} --micro-batches 7 --gpus 3 --pp 3 --pp-schedule interleaved1f1b
expect 2 '--pp-schedule interleaved1f1b,stages=2' $looped interleaved1f1b,stages=3
expect 2 '1f1b, gpipe, interleaved1f1b, loopedbfs, interleavedzerobubble, zbvzerobubble or dualpipev, not "zb"' $piped zb
expect 0 '^  stages   0 and 5 of 6 · blocks 0 and 5 of 6 ' $looped zbvzerobubble --rank 0
expect 0 '^  stages   2 and 3 of 6 · blocks 2 and 3 of 6 ' ${looped/--micro-batches 4/--micro-batches 8} dualpipev --rank 2
expect 2 'at least as many microbatches as stages, but got 4 microbatches and 6 stages' $looped dualpipev
expect 2 'exactly 2 stages per rank, but got 3' $looped zbvzerobubble,stages=3
expect 2 'some parameters got no gradient' ${looped/--gpus 3/--gpus 6} interleavedzerobubble --fsdp reshard=true
saved="tests/parallel/models/llama.json --seq 512 --opt adamw --gpu h200 --batch 4 --gpus 4 --fsdp param=bf16 --save"
expect 0 'Saves .* at most · 93.8 MiB for what becomes whole' $saved full
expect 0 'no more than lives between steps' $saved sharded
expect 0 '"save": "model"' $saved model --format json
expect 2 'did you mean "full"' $saved ful
expect 0 'Saves .* at most · 141 MiB for what becomes whole' $saved model --tp 2
expect 2 'a full checkpoint of experts with --tp is not planned' ${saved/llama.json/mixtral.json} model --tp 2
expect 2 'a sharded checkpoint of FSDP1' ${saved/param=bf16/version=1} sharded
expect 0 'Saves .* at most · 188 MiB for what becomes whole' ${saved/param=bf16/version=1} model
expect 0 'more than lives between steps' ${saved/--fsdp param=bf16/--zero 2 --precision bf16} full
expect 2 'what DeepSpeed saves in fp32' ${saved/--fsdp param=bf16/--zero 2} full
expect 2 'leave out --step' $saved full --step first
expect 2 'ZeroRedundancyOptimizer' ${saved/--fsdp param=bf16/--zero 1} full
expect 2 'no words for --save' $saved full --emit torchrun
expect 2 '--save sharded' fit zoo:llama3_8b --seq 512 --gpus 8 --gpu h100 --batch 8 --may mesh --save full
expect 2 'FSDP1' fit zoo:llama3_8b --seq 512 --gpus 8 --gpu h100 --batch 8 --may mesh --fsdp version=1
expect 2 'ends with a comma' zoo:llama3_8b --seq 512 --gpus 8 --batch 8 --tp 8,
expect 2 'leave out --seq' --megatron tests/parallel/megatron/llama3_8b.sh --gpus 16 --seq 128
expect 2 'leave out all but one' --megatron tests/parallel/megatron/llama3_8b.sh --gpus 16 --accelerate x.yaml
expect 2 'before 2.3 has no FSDP2' zoo:gpt2 --gpus 2 --batch 2 --zero fsdp --pytorch 2.0
expect 2 'zbvzerobubble,outputs=drop' ${looped/--gpus 3/--gpus 6} zbvzerobubble --tp 2
expect 0 '^  pipeline of 6 stages, interleaved zero bubble · rank 2 of 3 ' $looped interleavedzerobubble --rank 2
expect 2 'backward an extra time' $looped interleavedzerobubble --checkpoint op
expect 2 'checkpoints are not planned' $looped interleavedzerobubble --checkpoint block
expect 2 'split= has 2 numbers that add up to 3; there are 4 stages and 6 blocks' $piped 1f1b,split=1/2
expect 2 'says outputs twice' $piped 1f1b,outputs=drop,outputs=keep
expect 2 'outputs expects keep or drop' $piped 1f1b,outputs=x
expect 2 'a stage without blocks: 8 stages of 6 blocks' $cut --micro-batches 4 --gpus 8 --pp 8 --pp-schedule gpipe
expect 2 'must be greater than or equal to the number of stages' $cut --micro-batches 2 --gpus 4 --pp 4 --pp-schedule 1f1b
expect 2 'from 0 to 3, not "4"' $piped 1f1b --rank 4
expect 2 'without offloading' $shared 1f1b --fsdp offload=true
expect 0 'gradients reduced in fp32 · reduced once all micro-batches are through' $shared 1f1b --fsdp param=bf16,reduce=fp32
expect 2 'with FSDP2 over the ranks of a stage' $shared 1f1b
for flag in '--amp bf16' '--weights nf4 --lora r=8' '--loop function' '--like trainer' '--offload saved' '--pytorch 2.8' \
  '--kernels liger' '--checkpoint reentrant' '--zero-grad backward' '--optimizer-in-backward' '--master'; do
  # shellcheck disable=SC2086
  expect 2 "${flag%% *}|master weights|offloading|PyTorch before 2.15|reentrant" $piped 1f1b $flag
done
experts="tests/parallel/models/mixtral16.json --seq 128 --gpus 4 --batch 4 --gpu h100"
expect 0 'expert parallel 2' $experts --zero fsdp --ep 2 --routing 1.5
expect 2 'planned with FSDP2' $experts --ep 2
expect 2 'does not divide the ranks that share the model, which are 4' $experts --zero fsdp --ep 3
expect 2 'factor from 0.01 to 2' $experts --zero fsdp --ep 2 --routing 9
fitted='fit zoo:mixtral_8x7b --seq 512 --precision bf16 --opt sgd --on h200 --batch 8'
expect 0 '--gpus 8 --ep 4 --zero fsdp$' $fitted --gpus 8 --ep 4 -q
expect 2 'does not divide the 6 GPUs' $fitted --gpus 6 --ep 4
expect 2 'planned with FSDP2, and --zero asks for others' $fitted --gpus 8 --ep 4 --zero ddp
expect 2 '--ep needs --gpus' $fitted --ep 4
expect 2 'needs --ep of several ranks' $experts --zero fsdp --routing 1.5
expect 0 'tensor parallel 2' $experts --zero fsdp --ep 4 --tp 2
expect 2 'must be a multiple of `tp_size`' $experts --zero fsdp --ep 2 --tp 4
expect 2 'not planned with sequence parallelism' $experts --zero fsdp --ep 2 --tp 2,sequence
expect 2 'not planned with --pp' $experts --zero fsdp --ep 2 --pp 2 --pp-schedule 1f1b
expect 0 'context parallel 2' $experts --zero fsdp --ep 2 --cp 2
expect 0 'expert parallel 2' $experts --zero fsdp --ep 2 --lora r=8,targets=q_proj+v_proj
expect 2 "adapts the experts' stacked weights" $experts --zero fsdp --ep 2 --lora r=8
expect 2 'PyTorch refuses layers with adapters' tests/parallel/models/llama.json --seq 256 --gpus 4 --batch 4 --gpu h100 --zero fsdp --tp 2,sequence --lora r=8
expect 3 'are not a multiple of --ep 3' tests/parallel/models/deepseek.json --seq 128 --gpus 3 --batch 3 --zero fsdp --ep 3 --gpu h100
expect 0 'without multi-token prediction' tests/huggingface/deepseek-v3.json --seq 128 --gpus 64 --batch 64 --zero fsdp --ep 64 --precision bf16 --opt sgd --gpu h200 --network 400
expect 2 'has no experts that --ep could share' zoo:gpt2 --gpus 4 --batch 4 --zero fsdp --ep 2 --gpu h100
tokens="tests/parallel/models/llama.json --seq 256 --gpus 4 --batch 4 --gpu h100"
expect 0 'context parallel 2' $tokens --zero fsdp --cp 2
expect 0 'context  64 of 256 tokens' $tokens --zero fsdp --cp 4
expect 0 '"context_ranks": 2' $tokens --zero fsdp --cp 2 --format json
expect 0 ' 4 .*✔' sweep $tokens --zero fsdp --over cp=1,2,4
expect 2 'planned with FSDP2' $tokens --cp 2
expect 0 '^  context parallel 4 · rank 0 of 4' $tokens --cp 4 --mode infer
expect 2 'tensor and context parallelism alone' $tokens --cp 4 --mode infer --zero fsdp
expect 2 'formulas do not cover it' zoo:gpt2 --batch 8 --gpus 4 --tp 2 --cp 2 --gpu h100
expect 2 '\-\-cp needs --gpus' tests/parallel/models/llama.json --cp 2
expect 2 'does not divide the ranks that share the model, which are 4' $tokens --zero fsdp --cp 3
expect 2 'does not divide the 254 tokens' ${tokens/256/254} --zero fsdp --cp 4
expect 0 'context parallel 2 · tensor parallel 2' $tokens --zero fsdp --cp 2 --tp 2
expect 2 'has no variable called seq' zoo:vit_b_16 --gpus 4 --batch 4 --zero fsdp --cp 2 --gpu h100
expect 2 'causal language models' zoo:bert_base --gpus 4 --batch 4 --zero fsdp --cp 2 --gpu h100
expect 0 'gathers  24 blocks' zoo:qwen2_0_5b --seq 128 --weights nf4 --lora r=8 --precision bf16 --gpus 4 --batch 4 --zero fsdp --gpu h100
expect 0 '1F1B · tensor parallel 2 · rank [0-9] of 8 ' $shared 1f1b --tp 2
expect 0 'tensor parallel 2 · FSDP2 · rank 4 of 16 ' $cut --micro-batches 4 --gpus 16 --tp 2 --pp 4 --pp-schedule 1f1b --fsdp reshard=false --rank 5
expect 2 'of decoders that transformers shares' zoo:vit_b_16 --batch 8 --micro-batches 4 --gpus 8 --tp 2 --pp 4 --pp-schedule 1f1b
expect 0 '^  96 to 127 ' ${cut/--batch 8/--batch 64} --micro-batches 4 --gpus 128 --tp 2 --pp 4 --pp-schedule 1f1b --fsdp reshard=false
expect 2 'leave out sync=last' $shared 1f1b --fsdp sync=last
expect 0 '2 replicas of 2 shards' ${cut/--batch 8/--batch 16} --micro-batches 4 --gpus 16 --pp 4 --pp-schedule 1f1b --fsdp reshard=false,replicate=2
expect 2 'not planned with DDP' $piped 1f1b --bucket-view
expect 2 'expects a whole number' ${mesh/--batch 32/--batch many} --gpus 4 --may mesh,micro-batches
expect 2 'needs --pp' zoo:llama3_8b --batch 8 --gpus 4 --pp-schedule 1f1b
expect 2 'needs --gpus' zoo:llama3_8b --batch 8 --pp-schedule 1f1b
expect 2 'its blocks do not return what they are given' zoo:resnet50 --batch 8 --micro-batches 4 --gpus 2 --pp 2 --pp-schedule 1f1b
expect 2 'is made of the model.s input' zoo:opt_125m --batch 8 --micro-batches 4 --gpus 2 --pp 2 --pp-schedule 1f1b

# Liger's kernels.
llama=tests/huggingface/llama-3.1-8b.json
expect 0 "tokens not packed · use_cache=False · Liger's kernels" $llama --kernels liger --precision bf16
expect 0 '"kernels": "liger"' $llama --kernels liger --precision bf16 --format json
expect 0 '^  Peak ' $llama --kernels liger --precision bf16 --mode infer --labels -q
expect 2 "--kernels liger: zoo:gpt2 is not a decoder of Llama's kind" zoo:gpt2 --kernels liger
expect 2 'did you mean "liger"' zoo:gpt2 --kernels ligre
expect 0 '^  +liger +[0-9]' sweep $llama --precision bf16 --over kernels=torch,liger

# A loop of unequal batches.
printf '100 200\n900 1000\n128 64\n' >"$work/lengths.txt"
loop="zoo:gpt2 -b 2 --opt adamw --seq-lengths $work/lengths.txt"
expect 0 '3 steps · 6 samples of 64 to 1,000 tokens, median 200 · 10 % padding' $loop
expect 0 '^  Peak .* in step 2, 2 × 1,000 tokens$' $loop
expect 0 'expandable_segments:True +[0-9]' $loop
expect 0 '^3,2,128,' $loop --format csv
expect 0 '"schema": "gpuplan.lengths/1"' $loop --format json
expect 0 '"gpuplan.lengths/1"' schema lengths
expect 1 'requested in step 2, 2 × 1,000 tokens, ' $loop --gpu '4 GiB'
expect 0 '^  200 steps · 400 samples' zoo:gpt2 -b 2 --opt adamw --seq-lengths lognormal:mean=60,max=200
expect 2 '--steps is for --seq-lengths' zoo:gpt2 --steps 20
expect 2 '--seq 64 with --seq-lengths' $loop --seq 64
expect 2 '--step first with --seq-lengths' $loop --step first
expect 2 '--mode infer with --seq-lengths' zoo:gpt2 --mode infer --seq-lengths "$work/lengths.txt"
expect 2 '--gpus with --seq-lengths is not planned' $loop --gpus 2
expect 2 'printed as a table, as JSON, CSV or HTML' $loop --format md
expect 2 'did you mean "mean"' zoo:gpt2 --seq-lengths lognormal:maen=600,max=20
expect 3 ':1:4' zoo:gpt2 --seq-lengths <(printf '12 x\n')
expect 2 'no variable "seq"' zoo:resnet50 --seq-lengths "$work/lengths.txt"
expect 3 'No such file' zoo:gpt2 --seq-lengths "$work/none.txt"
expect 3 'longer than the 1024 position' zoo:gpt2 --seq-lengths lognormal:mean=600,max=5000

# Loops of libraries whose own trainers are run.
expect 2 'on a model of transformers' zoo:gpt2 --like trl-sft
expect 2 "--clip-grad-norm with --like trl-sft: the library's code is not told of it" $llama --like trl-sft --clip-grad-norm
expect 2 '--like trl-dpo is a loop of training' $llama --like trl-dpo --mode infer
expect 2 '--seq expects a whole number' $llama --like trl-sft --seq abc
expect 2 '--seq expects a whole number' $llama --like trl-sft --seq 99999999999999999999
expect 2 '--checkpoint every=2 with --like trl-sft' $llama --like trl-sft --checkpoint every=2
expect 2 '--weights int4 with --peft ia3' $llama --peft ia3 --weights int4
expect 2 '--precision fp64 with --peft ia3' $llama --peft ia3 --precision fp64
expect 2 '--zero with --like trl-sft: the library' $llama --like trl-sft --gpus 2 --zero fsdp --batch 2
expect 2 '--fsdp with --like trl-sft: the library' $llama --like trl-sft --gpus 2 --fsdp param=bf16 --batch 2
expect 2 '--tp with --like pytorch().*not told' $llama --like 'pytorch()' --gpus 2 --tp 2 --batch 2
expect 2 'replicate=4 does not divide 2 ranks' $llama --like 'pytorch()' --gpus 2 --batch 2 --fsdp replicate=4
expect 2 'which micro-batch reduces gradients' $llama --like 'pytorch()' --gpus 2 --batch 2 --fsdp sync=last
expect 2 'bucket-view is of gradients' zoo:llama3_8b --mode infer --gpus 2 --cp 2 --batch 2 --bucket-view
expect 2 "Lightning's loop on several GPUs is not planned by rules" $llama --like lightning --gpus 2 --batch 2
expect 2 '--rank all with --like pytorch()' $llama --like 'pytorch()' --gpus 2 --rank all --batch 2
expect 2 'a batch of 3 cannot be divided equally among 2 GPUs' $llama --like 'pytorch()' --gpus 2 --batch 3
expect 2 'a batch of 4 cannot be divided equally among 2 GPUs of 4 micro-batches' $llama --like 'pytorch()' --gpus 2 --micro-batches 4 --batch 4
expect 2 '--accelerate with --like pytorch()' $llama --like 'pytorch()' --accelerate tests/parallel/accelerate/fsdp2.yaml
expect 2 '--eval-batch with --peft ia3 is not planned' $llama --peft ia3 --eval-batch 4
expect 2 '--seq-lengths with --like trl-dpo is not planned' $llama --like trl-dpo --seq-lengths "$work/lengths.txt"
expect 2 '--peft ia3 runs the library' zoo:gpt2 --peft ia3
expect 2 '--lora and --peft both say' $llama --peft ia3 --lora r=8
expect 2 '--like infer.merge=True. is for --mode infer' $llama --like 'infer(merge=True)' --lora r=8
expect 2 '--weights int4:torchao is for gpuplan plan' fit $llama --weights int4:torchao
expect 2 '--like torchtune is for gpuplan plan' layers $llama --like torchtune
expect 2 '--like accelerate is not planned by the library' $llama --peft ia3 --like accelerate
expect 2 '--peft is for gpuplan plan' fit $llama --peft ia3

# Snapshots of PyTorch's allocator, read by themselves, replayed, and refused where they cannot be.
expect 0 '^  Peak +323 MiB  allocated, at backward, step 2' snapshot tests/snapshots/plain-2.15.pickle
expect 0 '^  grows by 4.00 MiB a step: train.py' tests/snapshots/leak-2.15.pickle
expect 0 '200 events, whose beginning is not there' snapshot tests/snapshots/cut-2.15.pickle
expect 1 'whose beginning is not there' snapshot tests/snapshots/cut-2.15.pickle --strict
expect 0 '"schema": "gpuplan.snapshot/1"' snapshot tests/snapshots/oom-2.15.pickle --format json
expect 0 '^0,train.py:[0-9]+ step,train.py' snapshot tests/snapshots/oom-2.15.pickle --format csv
expect 0 '^tests/snapshots/leak-2.15.pickle +0 +335 MiB +426 MiB +12.0 MiB|^  tests/snapshots/leak-2.15.pickle' snapshot tests/snapshots/plain-2.15.pickle tests/snapshots/leak-2.15.pickle
expect 2 'for one snapshot' snapshot tests/snapshots/plain-2.15.pickle tests/snapshots/leak-2.15.pickle --format json
expect 2 'has 2 GPUs' snapshot tests/snapshots/two-2.15.pickle --device 2
expect 2 'is a snapshot of a run as it was' tests/snapshots/plain-2.15.pickle --batch 4
expect 2 '^error: --timeline: .* has events and no layers' tests/snapshots/plain-2.15.pickle --timeline
expect 2 '^error: --depth: .* has events and no layers' tests/snapshots/plain-2.15.pickle --depth 2
expect 2 '^error: --gpus: .* has events and no layers' tests/snapshots/plain-2.15.pickle --gpus 2
expect 2 '^error: --timeline: a trace has phases' tests/learned/resnet50.trace --timeline
expect 3 'explained by gpuplan snapshot' fit tests/snapshots/plain-2.15.pickle
expect 3 'no pickle, at byte 1' snapshot README.md
expect 0 'all addresses match' replay tests/snapshots/plain-2.1.pickle --check
expect 1 'out of memory on 800MiB, beside the CUDA context' replay tests/snapshots/plain-2.15.pickle --gpu 800MiB
expect 2 'its history has no beginning' replay tests/snapshots/cut-2.15.pickle --check
expect 2 'device is for snapshots' replay tests/traces/none.tsv --device 1

# A plan is a snapshot, too: for viewers, for gpuplan snapshot, and beside a run.
"$gpuplan" zoo:resnet50 -b 64 --opt adam -q -o memviz:"$work/plan.pickle" -o trace:"$work/plan.json" -o "$work/plan.speedscope.json" -o "$work/plan.folded" >/dev/null 2>&1 ||
  fail 'no files for viewers'
expect 0 '^  Peak +5.47 GiB  allocated, at zoo:resnet50:28 layer4.2.1 ' snapshot "$work/plan.pickle"
expect 0 'all addresses match' replay "$work/plan.pickle" --check
expect 0 '^  peak +5.47 GiB +→ +5.47 GiB +±0' diff zoo:resnet50 "$work/plan.pickle" -b 64 --opt adam
expect 0 '^ *\+12.0 +new  train.py:63' diff tests/snapshots/plain-2.15.pickle tests/snapshots/leak-2.15.pickle
grep -q '^resnet50;bn1;bn1 aten::batch_norm 205521920$' "$work/plan.folded" || fail 'no folded stack of bn1'
python3 -c 'import json, sys; t = json.load(open(sys.argv[1])); s = json.load(open(sys.argv[2])); p = s["profiles"][0]
assert max(e["args"]["allocated"] for e in t["traceEvents"] if e["ph"] == "C") == sum(p["weights"]) == p["endValue"]
assert {e["name"] for e in t["traceEvents"] if e["ph"] == "X"} >= {"forward", "backward", "Optimizer.step#adam"}' \
  "$work/plan.json" "$work/plan.speedscope.json" || fail 'the peaks of trace and speedscope differ'
expect 0 '"traceEvents"' zoo:mlp -b 8 --format trace
expect 2 'for one snapshot' snapshot tests/snapshots/plain-2.15.pickle tests/snapshots/leak-2.15.pickle -o memviz:"$work/x.pickle"
expect 2 'cannot write the format memviz' fit zoo:resnet50 --gpu t4 --format memviz
expect 0 'in bf16 · gradients reduced in fp32' zoo:gpt2 -b 8 --gpus 4 --fsdp param=bf16,reduce=fp32 --opt adamw --gpu h100
expect 0 'gradients reduced in fp32' zoo:gpt2 -b 8 --gpus 4 --fsdp param=bf16 --gpu h100 # PyTorch 2.15
expect 0 'gradients reduced in bf16' zoo:gpt2 -b 8 --gpus 4 --fsdp param=bf16 --gpu h100 --pytorch 2.8
expect 0 'no block is wrapped' zoo:mlp -b 8 --gpus 4 --fsdp reshard=true --gpu h100
expect 2 'param expects bf16, fp16 or fp32' zoo:gpt2 -b 8 --gpus 4 --fsdp param=int8
expect 2 'did you mean "param"' zoo:gpt2 -b 8 --gpus 4 --fsdp parm=bf16
expect 2 'has no value' zoo:gpt2 -b 8 --gpus 4 --fsdp param
expect 2 'says param twice' zoo:gpt2 -b 8 --gpus 4 --fsdp param=bf16,param=fp16
expect 2 'is FSDP2, and --zero ddp is not' zoo:gpt2 -b 8 --gpus 4 --fsdp param=bf16 --zero ddp
expect 2 'say the same' zoo:gpt2 -b 8 --gpus 4 --fsdp reshard=false --no-reshard
expect 0 'the last one kept until backward · the root gathered again' zoo:gpt2 -b 8 --gpus 4 --fsdp reshard=but-last,reshard-root=true --gpu h100
expect 2 'was recorded with PyTorch 2.8 and later' zoo:gpt2 -b 8 --gpus 4 --fsdp reshard-root=true --pytorch 2.6
expect 2 'expects true, false or but-last' zoo:gpt2 -b 8 --gpus 4 --fsdp reshard=never
expect 2 'needs --gpus' zoo:gpt2 -b 8 --fsdp param=bf16
expect 0 '2 replicas of 2 shards' zoo:gpt2 -b 8 --gpus 4 --fsdp replicate=2 --gpu h100
expect 0 'gradients of replicas' zoo:gpt2 -b 8 --gpus 4 --fsdp replicate=2 --gpu h100
expect 0 'optimizer state · on the host' zoo:gpt2 -b 8 --gpus 4 --fsdp offload=true --opt adamw --gpu h100
expect 0 'reduced with the last micro-batch' zoo:gpt2 -b 8 --micro-batches 2 --gpus 4 --fsdp sync=last --gpu h100
expect 2 'does not divide 4 ranks' zoo:gpt2 -b 8 --gpus 4 --fsdp replicate=3
expect 2 'and there is one' zoo:gpt2 -b 8 --gpus 4 --fsdp sync=last
expect 2 'sync expects last or each' zoo:gpt2 -b 8 --gpus 4 --fsdp sync=never
expect 2 'narrower type' zoo:gpt2 -b 8 --micro-batches 2 --gpus 4 --fsdp sync=last,reduce=bf16
expect 0 'FSDP2 param=bf16,reduce=fp32' fit zoo:gpt2 --batch 8 --gpus 4 --fsdp param=bf16,reduce=fp32 --on h100
expect 2 '--fsdp is FSDP2, and --zero asks for others' fit zoo:gpt2 --batch 8 --gpus 4 --fsdp param=bf16 --zero ddp --on h100
expect 0 'tensor parallel 2 · each of 2 ranks · batch 1' zoo:llama3_70b --mode infer --precision bf16 --batch 1 --gpus 2 --tp 2 --gpu h100
expect 0 'foreach=False' zoo:tinyllama_1b --batch 1 --gpus 2 --tp 2 --opt adamw --gpu h100
expect 0 'FSDP2 · tensor parallel 2 · rank 1 of 2' zoo:tinyllama_1b -b 2 --gpus 4 --tp 2 --rank 1 --zero fsdp --gpu h100
expect 2 'kv_heads: 4 of tinyllama_1b is not a multiple of --tp 8' zoo:tinyllama_1b --batch 1 --gpus 8 --tp 8
expect 2 'alone and with FSDP2' zoo:tinyllama_1b -b 8 --gpus 8 --tp 2
expect 2 'amp is not planned with --tp' zoo:tinyllama_1b -b 8 --gpus 2 --tp 2 --amp bf16
shares='zoo:tinyllama_1b --seq 1024 -b 4 --opt adamw --gpu h100'
expect 0 'FSDP2 · tensor parallel 2, with sequence and loss parallel · rank 0 of 2' $shares --gpus 4 --tp 2,sequence,loss --zero fsdp --rank 0
expect 0 '^  sums of tokens, forward +reduce-scatter' $shares --gpus 4 --tp 2,sequence --zero fsdp
expect 0 'clip' $shares --gpus 4 --tp 2,sequence,loss --zero fsdp --clip-grad-norm --format json
expect 0 'parallelize_module\(block, mesh, plan\)' $shares --gpus 4 --tp 2,sequence,loss --zero fsdp --emit torchrun
expect 2 'did you mean "sequence"' $shares --gpus 2 --tp 2,sequense
expect 3 '1023 tokens are not a multiple of --tp 2' ${shares/1024/1023} --gpus 2 --tp 2,sequence
expect 2 'of dense decoders that transformers shares' zoo:gpt2 -b 4 --gpus 2 --tp 2,sequence
expect 2 'of dense decoders that transformers shares' zoo:mixtral_8x7b -b 4 --gpus 2 --tp 2,sequence,loss
expect 0 'context parallel 2 · tensor parallel 2, with sequence parallel' $shares --gpus 4 --tp 2,sequence --cp 2 --zero fsdp
expect 0 '1F1B · tensor parallel 2, with sequence and loss parallel · ' $shares --gpus 4 --tp 2,sequence,loss --pp 2 --pp-schedule 1f1b --micro-batches 4
expect 0 'get_mesh=lambda names, layout: mesh\["tp"\]' $shares --gpus 4 --tp 2,sequence,loss --pp 2 --pp-schedule 1f1b --micro-batches 4 --emit torchrun
expect 2 'got mixed torch.Tensor and DTensor' zoo:tinyllama_1b -b 8 --gpus 2 --tp 2 --opt adamw --opt-impl fused
expect 2 'must have the same mesh' zoo:tinyllama_1b -b 8 --gpus 2 --tp 2 --clip-grad-norm
echo '{"model_type": "gpt_oss"}' >"$work/config.json"
expect 2 'a GPT has|--tp and --pp are planned for GPTs' "$work/config.json" -b 8 --gpus 2 --tp 2
expect 0 'tensor parallel 2' tests/parallel/models/qwen3moe.json --seq 128 -b 4 --gpus 4 --tp 2 --zero fsdp --gpu h100
expect 2 'rank all is of plan' sweep zoo:gpt2 --over batch=4:8:4 --gpus 4 --rank all
acc=tests/parallel/accelerate/fsdp2.yaml
expect 0 'rank [0-9] of 8, which needs the most · batch 1 each, 8 in total' zoo:gpt2 --batch 8 --opt adamw --gpu h100 --accelerate $acc
expect 0 'the embedding and the head, too, as Accelerate' zoo:gpt2 --batch 8 --opt adamw --gpu h100 --accelerate $acc
expect 0 'DeepSpeed ZeRO-3 · rank 0 of 8' zoo:gpt2 --batch 8 --opt adamw --gpu h100 --accelerate tests/parallel/accelerate/zero3.yaml
expect 0 '^  FSDP1 · rank [0-9] of 8, which needs the most ' zoo:gpt2 --batch 8 --opt adamw --gpu h100 --accelerate tests/parallel/accelerate/fsdp1.yaml
flat='zoo:gpt2 --batch 16 --gpus 8 --opt adamw --gpu h100 --rank 0 --fsdp version=1'
expect 0 'in bf16 · gradients reduced in fp32 · kept until backward .strategy=grad-op' $flat,strategy=grad-op,param=bf16,reduce=fp32
expect 0 'nothing is shared .strategy=none' $flat,strategy=none
expect 0 '2 replicas of 4 shards' $flat,strategy=hybrid,replicate=2
expect 2 'is frozen' $flat,orig-params=true --lora r=8
expect 2 'as PyTorch 2.15 runs it' $flat --pytorch 2.8
expect 2 'ShardedGradScaler' $flat --amp fp16
expect 2 'does not add up gradients' $flat,offload=true --micro-batches 2
expect 2 'both are told' $flat --emit torchrun
expect 2 'fit plans offers with FSDP2' fit zoo:gpt2 --gpus 8 --fsdp version=1
expect 3 '--gpus says 4, and the file 8' zoo:gpt2 --batch 8 --gpus 4 --opt adamw --gpu h100 --accelerate $acc
expect 2 'for the plan of a step' zoo:gpt2 --batch 8 --eval-batch 4 --opt adamw --gpu h100 --accelerate $acc
printf 'gpuplan: 1\nname: frozen\ninput: {shape: [784]}\nlayers: [{op: "Linear(_, 10)", frozen: true}]\n' >"$work/frozen.yaml"
for stage in 2 3; do
  expect 0 'DeepSpeed ZeRO' "$work/frozen.yaml" --gpus 4 --batch 4 --zero $stage --precision bf16 --opt adamw --gpu h100
  expect 2 'keeps fp32 copies' zoo:gpt2 --gpus 4 --batch 4 --zero $stage --precision bf16 --master fp32 --gpu h100
done
ds=tests/parallel/deepspeed/zero3_offload.json
expect 0 'on the host' zoo:gpt2 --gpus 4 --batch 4 --precision bf16 --opt adamw --gpu h100 --deepspeed $ds
ds=tests/parallel/deepspeed/zero2.json
sed 's/"stage": 2/"stage": 1/' $ds >"$work/zero1.json"
expect 0 'DeepSpeed ZeRO-1' zoo:gpt2 --gpus 4 --opt adamw --gpu h100 --deepspeed "$work/zero1.json"
expect 2 "DeepSpeed's stage 1 is planned as it runs" zoo:gpt2 --gpus 4 --opt adamw --lora r=8,dora=true --gpu h100 --deepspeed "$work/zero1.json"
expect 0 'DeepSpeed ZeRO-1' zoo:gpt2 --gpus 4 --opt adamw --lora r=8 --gpu h100 --deepspeed "$work/zero1.json"
expect 0 'ranks +MiB allocated +reserved +needs' zoo:gpt2 -b 8 --gpus 4 --rank all --zero fsdp --gpu h100
expect 2 'rank expects a whole number' zoo:gpt2 -b 8 --gpus 4 --rank every --zero fsdp --gpu h100
expect 0 'DeepSpeed ZeRO-2 · rank [0-9] of 4, which needs the most · batch 2 each, 8 in total' zoo:gpt2 --gpus 4 --opt adamw --gpu h100 --deepspeed $ds
expect 0 '2 of 381 MiB for gradients · 200,000,000 elements' zoo:gpt2 --gpus 4 --opt adamw --gpu h100 --deepspeed $ds
expect 2 'needs --gpus' zoo:gpt2 --gpu h100 --deepspeed $ds
expect 3 '--batch says 3, and the file 8' zoo:gpt2 --batch 3 --gpus 4 --gpu h100 --deepspeed $ds
expect 3 '--precision says fp32, and the file bf16' zoo:gpt2 --gpus 4 --precision fp32 --gpu h100 --deepspeed $ds
expect 2 "PyTorch refuses bn1 under DeepSpeed's bf16" zoo:resnet50 --gpus 4 --gpu h100 --opt adamw --deepspeed $ds
expect 0 'ZeRO-3 · rank 0 of 4' zoo:gpt2 -b 8 --gpus 4 --zero 3 --opt adamw --precision bf16 --gpu h100
expect 2 'inference on several GPUs is planned with tensor and context parallelism alone' zoo:tinyllama_1b -b 8 --gpus 2 --mode infer
expect 2 'PyTorch refuses bn1 under this policy' zoo:resnet50 -b 8 --gpus 4 --fsdp param=bf16
expect 0 'checkpoint op' tests/huggingface/llama-3.1-8b.json --precision bf16 --checkpoint op --gpu h100
expect 2 'use_reentrant=True cannot' zoo:gpt2 -b 2 --checkpoint op,reentrant
expect 2 'expects none, block, op, every=N' zoo:gpt2 -b 2 --checkpoint opp
expect 2 'zeroes gradients itself' zoo:resnet18 -b 8 --gpus 2 --zero 2 --zero-grad backward
expect 2 'zero-grad is that of --like trainer' zoo:gpt2 -b 2 --like trainer --zero-grad backward
expect 2 'zero-grad is for training' zoo:resnet18 --mode infer --zero-grad backward
expect 2 'forward or backward' zoo:resnet18 --zero-grad never
expect 2 'a trace records one fixed run' tests/learned/gpt2.trace --batch 4 --zero-grad backward
expect 0 'at forward of' zoo:resnet18 -b 16 --opt adam --gpu l4 --zero-grad backward
expect 0 'Samples a second' sweep zoo:resnet18 --over batch=8,16 --gpu l4 --plot --ascii -q
expect 2 'plot draws below a table' sweep zoo:resnet18 --over batch=8,16 --plot --format json
expect 2 'SVG files need --roofline' layers zoo:resnet18 --gpu l4 -o svg:"$work/x.svg"
expect 2 'this command cannot write the format html' gpus -o "$work/x.html"
expect 2 'this command cannot write the format svg' fit zoo:resnet18 -o "$work/x.svg"
expect 2 'cannot write the format html' fit zoo:resnet18 --solve batch -o "$work/x.html"
expect 2 'replay writes text, JSON or HTML' replay tests/snapshots/plain-2.15.pickle --format csv
expect 2 'html is for several, too' snapshot tests/snapshots/plain-2.15.pickle tests/snapshots/leak-2.15.pickle --format json
expect 2 'a page is made of it by gpuplan plan' shadow --learn "$work/x.trace" --vary batch=1,2 -o "$work/x.html" -- true
expect 2 'cannot write the format memviz' zoo:gpt2 -b 8 --gpus 2 --pp 2 -o memviz:"$work/x.pickle"
expect 2 'are not there with --canonical' zoo:mlp -b 8 --canonical --format html
expect 2 'PyTorch.s caching allocator' zoo:mlp -b 8 --allocator exact -o memviz:"$work/x.pickle"

expect 0 '\^ peak 14.7 GiB' zoo:gpt2 -b 8 --timeline --ascii --width 60

# An evaluation between steps of training.
evaluated="zoo:gpt2 -b 2 --opt adamw --like trainer --eval-batch 8"
expect 0 '^  5 steps of training and an evaluation of 3 batches of 8$' $evaluated
expect 0 '^  4 +evaluation +8 × 1,024 +[0-9]' $evaluated
expect 0 '^4,8,1024,.*,1$' $evaluated --format csv
expect 0 'logits are kept, and moved to the host after 1 batch$' $evaluated --eval-logits --eval-accumulation-steps 1
expect 0 '"evaluates": true' $evaluated --format json
expect 1 'requested in step 5, of the evaluation, 8 × 1,024 tokens, loss, ' $evaluated --eval-logits --gpu '8 GiB'
expect 0 '^  [0-9-]+ +evaluation +256 ' zoo:resnet50 -b 32 --eval-batch 256 --precision bf16
expect 2 '--seq-lengths with --eval-batch is not planned' $evaluated --seq-lengths "$work/lengths.txt"
expect 2 '--gpus with --eval-batch is not planned' $evaluated --gpus 2
expect 2 '--eval-batches is for --eval-batch' zoo:gpt2 --eval-batches 3
expect 2 '--eval-batch expects a whole number' zoo:gpt2 --eval-batch many
expect 0 exposed $stages -o "$work/stages.json"
grep -q '"gpuplan.stages/1"' "$work/stages.json" || fail '-o of stages is not their JSON'
expect 2 'layers: biases, an ungated MLP of 4 x hidden' zoo:llama2_7b --batch 8 --gpus 8 --pp 8

# Wrong input: 3.
expect 3 'No such file' missing.yaml
expect 3 'zoo:resnet50' resnet50
expect 3 'did you mean "resnet50"' zoo:resnet5
expect 3 'is a directory without a model' configs
expect 3 'No such file' replay missing.tsv
expect 3 'no events' replay /dev/null
expect 3 '<stdin>' - # empty
head -c 5000000 /dev/zero >"$work/big.yaml"
expect 3 'larger than 4 MiB' "$work/big.yaml"
printf 'gpuplan: 1\nname: x\ninput: {shape: [4]}\nlayers:\n  - Linaer(4, 4)\n' >"$work/wrong.yaml"
expect 3 'did you mean "Linear"' "$work/wrong.yaml"
expect 3 "$work/wrong.yaml:5:" "$work/wrong.yaml"

# The environment: 4.
expect 4 'cannot write' $model -b 2 -o "$work/no/such/folder.json"
if [ -w /dev/full ]; then
  "$gpuplan" $model -b 2 >/dev/full 2>"$work/err"
  [ $? -eq 4 ] || fail "a full disk is not exit 4"
fi
{ "$gpuplan" zoo:resnet50 --format json 2>"$work/err"; echo $? >"$work/code"; } | true
[ "$(cat "$work/code")" -eq 141 ] || fail "a closed pipe is exit $(cat "$work/code"), not that of SIGPIPE"
[ -s "$work/err" ] && grep -q 'cannot write' "$work/err" && fail "a closed pipe is told"

# Files, beside standard output.
"$gpuplan" $model -b 2 -q -o "$work/a.json" -o "$work/a.csv" -o "md:$work/c" -o "csv:$work/b" >/dev/null || fail "files"
"$gpuplan" $model -b 2 -q --format json | cmp -s - "$work/a.json" || fail "a.json is not what standard output gets"
grep -q "^### mlp" "$work/c" || fail "md:c is not Markdown"
cmp -s "$work/a.csv" "$work/b" || fail "csv:b is not a.csv"

# Standard input and the same bytes every time.
"$gpuplan" - -b 2 --format json <$model 2>/dev/null | sed 's/<stdin>/M/' >"$work/1"
"$gpuplan" $model -b 2 --format json 2>/dev/null | sed "s|$model|M|" >"$work/2"
cmp -s "$work/1" "$work/2" || fail "standard input plans another model than the file"

# Plain text in a pipe; colour and ASCII on request.
expect 0 $'\x1b' $model -b 2 --color always
CLICOLOR_FORCE=1 expect 0 $'\x1b' $model -b 2
"$gpuplan" $model -b 2 2>/dev/null | grep $'\x1b\\|█\\|next' >/dev/null && fail "bars, colour or suggestions in a pipe"
"$gpuplan" $model -b 2 --ascii 2>/dev/null | LC_ALL=C grep '[^ -~]' >/dev/null && fail "--ascii prints something else"
LC_ALL=C "$gpuplan" $model -b 2 2>/dev/null | LC_ALL=C grep '[^ -~]' >/dev/null && fail "the C locale gets something else than ASCII"

# Warnings go to standard error, and nowhere with -q.
"$gpuplan" $model -b 2 2>&1 >/dev/null | grep '^warning: no --gpu' >/dev/null || fail "no warning without --gpu"
[ -z "$("$gpuplan" $model -b 2 -q 2>&1 >/dev/null)" ] || fail "-q warns"

# Completion scripts are scripts.
"$gpuplan" completion bash >"$work/completion" && bash -n "$work/completion" || fail "the bash completion has an error"
# completes LINE WORDS: what Tab inserts behind a line, in a bash without the package bash-completion.
completes() {
  local words
  words=$(bash -c 'source "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=($2) COMP_CWORD=1; _gpuplan; echo "${COMPREPLY[*]}"' _ "$work/completion" "$1")
  [ "$words" = "$2" ] || fail "completion of '$1': '$words', not '$2'"
}
completes 'gpuplan zoo:mlp --loop ' 'plain function loss_only'
completes 'gpuplan zoo:mlp --loop=f' 'function'
completes 'gpuplan zoo:resnet10' 'resnet101'
completes 'gpuplan layers zoo:resnet10' 'resnet101'
completes 'gpuplan comp' 'completion'

# The manual page is one that man can typeset.
"$gpuplan" man >"$work/gpuplan.1" || fail "gpuplan man"
grep -qxF '.SS gpuplan calibrate' "$work/gpuplan.1" || fail "the manual has no calibrate"
if command -v groff >/dev/null; then
  [ -z "$(groff -man -Tutf8 -ww "$work/gpuplan.1" 2>&1 >/dev/null)" ] || fail "groff: $(groff -man -Tutf8 -ww "$work/gpuplan.1" 2>&1 >/dev/null | head -3)"
fi

# Of two installations the first on PATH is the one that runs, and version -v says so.
mkdir "$work/first" "$work/second"
ln -s "$gpuplan" "$work/first/gpuplan"
printf '#!/bin/sh\n' >"$work/second/gpuplan" && chmod +x "$work/second/gpuplan"
PATH="$work/first:$work/second:$PATH" expect 0 "$work/first/gpuplan \(this one\)" version -v
PATH="$work/second:$work/first:$PATH" expect 0 "$work/second/gpuplan \(what .gpuplan. starts\)" version -v

# What nests as deep as it may, on a stack of 256 KiB: an answer or an error, never a crash.
python3 - "$work" <<'END'
import sys
def write(name, text):
    open(f"{sys.argv[1]}/deep_{name}", "w").write(text)
head = "gpuplan: 1\ninput: {shape: [8]}\n"
write("parentheses.yaml", f"{head}layers:\n  - Linear(_, ${{{'(' * 63}8{')' * 63}}})\n")
write("extrema.yaml", f"{head}layers:\n  - Linear(_, ${{{'min(' * 63}8{')' * 63}}})\n")
write("tuples.yaml", f"{head}layers:\n  - View({'(' * 64}8{',)' * 64})\n")
write("brackets.yaml", "a: " + "[" * 255 + "]" * 255 + "\n")
write("dashes.yaml", "a:\n" + "- " * 254 + "a\n")
blocks = "".join(f"  B{i}:\n    layers:\n      - b: {{block: B{i + 1}}}\n" for i in range(45))
write("blocks.yaml", f"{head}blocks:\n{blocks}  B45:\n    layers:\n      - Linear(_, 8)\nlayers:\n  - b: {{block: B0}}\n")
def residual(depth, indent):
    space = " " * indent
    if depth == 0:
        return space + "- Linear(_, 8)\n"
    return f"{space}- residual:\n{space}    body:\n{residual(depth - 1, indent + 6)}"
write("residuals.yaml", f"{head}layers:\n{residual(46, 2)}")
write("lists.json", '{"model_type": "gpt2", "x": ' + "[" * 62 + "]" * 62 + "}")
write("too_deep.json", '{"model_type": "gpt2", "x": ' + "[" * 100000 + "]" * 100000 + "}")
END
for file in "$work"/deep_*; do
  (ulimit -s 256 && "$gpuplan" "$file" -q >"$work/out" 2>"$work/err")
  code=$?
  [ $code -eq 0 ] || [ $code -eq 3 ] || fail "$(basename "$file") on a small stack: exit $code"
done
(ulimit -s 64 && "$gpuplan" "$work/deep_parentheses.yaml" -q >"$work/out" 2>&1) || fail "64 KiB: $(cat "$work/out")"
(ulimit -s 64 && "$gpuplan" fit "$work/deep_residuals.yaml" --on t4,l4 >"$work/out" 2>&1) || fail "threads: $(cat "$work/out")"
# A bug would be exit 70; a count may be any number.
expect 3 'more than 250000 layers' zoo:gpt2 --set layers=9223372036854775807

exit $status
