#!/usr/bin/env bash
# What is read comes from files, pipes and standard input alike, and what is written never costs the file that was
# there: a full disk, a limit, a signal, a slip of -o. $GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
# A disk that is full is one of our own, where mounting is allowed.
if [ -z "${OWN_MOUNTS:-}" ]; then
  for own in 'unshare -m' 'unshare -rm'; do
    if $own true 2>/dev/null; then exec env OWN_MOUNTS=1 $own "$0"; fi
  done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GITHUB_STEP_SUMMARY
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

# expect CODE PATTERN ARGUMENTS...: the exit code, and a pattern in what it prints.
expect() {
  local code=$1 pattern=$2 actual
  shift 2
  timeout 60 "$gpuplan" "$@" >"$work/out" 2>&1
  actual=$?
  [ "$actual" -eq "$code" ] || fail "gpuplan $*: exit $actual, not $code: $(head -n 2 "$work/out")"
  grep -qE -- "$pattern" "$work/out" || fail "gpuplan $*: no '$pattern' in $(head -n 3 "$work/out")"
}

model=configs/models/mlp.yaml
trace=tests/learned/resnet50.trace
history=tests/shadow/traces/h200.torch2.15/mlp.b128.fp32.sgd.tsv.gz
gpu=configs/gpus/t4.yaml
printf 'InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\ng6.xlarge,L4,1,4,16,0.9,0.4,eu\n' \
  >"$work/vms.csv"
"$gpuplan" instances import "$work/vms.csv" --provider aws --date 2026-11-20 >"$work/prices.csv" 2>"$work/err" || fail "no prices"

# Reading. A pipe is read once, whatever looks at it first, and "-" is standard input wherever a file may stand.
# reads PATTERN FILE ARGUMENTS...: with the file, a pipe that has its bytes, and standard input in the place of @.
reads() {
  local pattern=$1 file=$2
  shift 2
  expect 0 "$pattern" "${@/#@/$file}"
  mkfifo "$work/fifo"
  cat "$file" >"$work/fifo" &
  expect 0 "$pattern" "${@/#@/$work/fifo}"
  wait
  rm "$work/fifo"
  expect 0 "$pattern" "${@/#@/-}" < <(cat "$file")
  expect 0 "$pattern" "${@/#@/-}" <"$file"
}
reads '^  Peak ' $model plan @ -b 2
reads '^  Peak ' $model @ -b 2
reads '^  Peak ' $trace plan @ --batch 8
reads 'loss' $model layers @ -b 2
reads 't4 ' $model fit @ --on t4
reads '^ +2 ' $model sweep @ --over batch=1,2
reads '✔' $model check @ --batch 2 --max-peak 8GiB
reads '.' $model diff @ zoo:mlp -b 2
reads '.' $model diff zoo:mlp @ -b 2
reads '.' $trace diff @ $trace --batch 8
reads 'gpuplan: 1' tests/huggingface/gpt2.json import @
reads 'gpuplan: 1' tests/huggingface/gpt2.json init @
reads '^  Needs .* fits NVIDIA T4' $gpu plan $model -b 2 --gpu @
reads 'peak allocated' $history replay @
zcat $history >"$work/history.tsv"
reads 'all addresses match the recording' "$work/history.tsv" replay --check @
reads 'g6.xlarge' "$work/prices.csv" instances --prices @
reads 'l4' "$work/prices.csv" fit $model --on l4 --prices @
reads 'g6.xlarge' "$work/vms.csv" instances import @ --provider aws --date 2026-11-20

# What has no end, and what has nothing.
for command in plan layers 'fit --on t4' import init replay 'instances import --provider aws'; do
  expect 3 'is larger than' $command - < <(yes '# no end')
done
mkfifo "$work/silent"
expect 3 'safetensors are read from a file' import --check "$work/silent" $model
expect 2 'a job cannot read standard input' fit - --on t4 --emit sky <$model
expect 2 'reads the model once per value' sweep "$work/silent" --over seq=1,2
expect 2 'standard input can be read only once' diff - -
rm "$work/silent"

# Writing. Each command with its file as @; NAME is what it is called.
writes=(
  "report.json plan $model -b 2 -o @"
  "report.csv plan $model -b 2 -o @"
  "report.md plan $model -b 2 -o @"
  "report.txt plan $model -b 2 -o @"
  "stages.json plan zoo:gpt2 -b 8 --gpus 2 --gpu a100 -o @"
  "trace.json plan $trace --batch 8 -o @"
  "layers.csv layers $model -b 2 -o @"
  "roofline.svg layers $model -b 2 --gpu t4 --roofline -o @"
  "fit.json fit $model --on t4 -o @"
  "task.yaml fit zoo:resnet50 --opt adam --on t4 --emit sky -o @"
  "job.sh fit zoo:resnet50 --opt adam --on t4 --emit slurm -o @"
  "sweep.jsonl sweep $model --over batch=1,2 -o @"
  "diff.json diff $model zoo:mlp -b 2 -o @"
  "gpus.json gpus -o @"
  "instances.json instances -o @"
  "check.json check $model --batch 2 --max-peak 8GiB -o @"
  "check.sarif check $model --batch 2 --max-peak 8GiB -o @"
  "metrics.txt check $model --batch 2 --max-peak 8GiB -o @"
  "prices.csv instances import $work/vms.csv --provider aws --date 2026-11-20 -o @"
  "model.yaml import tests/huggingface/gpt2.json --force -o @"
  "gpuplan.yaml init --budget zoo:mlp -b 2 --force -o @"
  "run.json shadow -q --gpu t4 -o @ -- true"
  "launches.tsv shadow -q --gpu t4 --launches @ -- true"
)
# with FILE NAME ARGUMENTS...: the arguments with their file, as the array `command`.
with() {
  local file=$1
  shift 2
  command=("${@/#@/$file}")
}
# The same twice: a report takes the place of a report, and has the mode that the old one had.
for line in "${writes[@]}"; do
  read -ra words <<<"$line"
  file=$work/${words[0]}
  with "$file" "${words[@]}"
  rm -f "$file"
  "$gpuplan" "${command[@]}" >"$work/out" 2>"$work/err" || fail "$line: $(head -n 1 "$work/err")"
  [[ ${words[0]} == launches.tsv || -s $file ]] || fail "$line: nothing is written"
  cp "$file" "$work/first"
  chmod 640 "$file"
  "$gpuplan" "${command[@]}" >"$work/out" 2>"$work/err" || fail "$line: a second time: $(head -n 1 "$work/err")"
  cmp -s "$file" "$work/first" || [[ $line == *shadow* ]] || fail "$line: the second file is another one"
  [ "$(stat -c %a "$file")" = 640 ] || fail "$line: the mode is $(stat -c %a "$file")"
done

# What cannot be written leaves what was there, nothing beside it, and a message.
# kept FILE PATTERN WHAT: after a run whose exit code is in $code and whose messages are in $work/err.
kept() {
  [ "$code" -eq 4 ] || fail "$3: exit $code: $(head -n 1 "$work/err")"
  grep -q "cannot write .*: $2" "$work/err" || fail "$3: no '$2' in $(head -n 2 "$work/err")"
  [ "$(cat "$1")" = old ] || fail "$3: the old file is lost"
  [ -z "$(find "${1%/*}" -name '.gpuplan*')" ] || fail "$3: a draft is left behind"
}
mkdir "$work/limited" "$work/full"
full=no
[ -z "${OWN_MOUNTS:-}" ] || ! mount -t tmpfs -o size=256k none "$work/full" 2>"$work/err" || full=yes
for line in "${writes[@]}"; do
  read -ra words <<<"$line"
  if [[ $line != *shadow* ]]; then # which has files of its own to write
    file=$work/limited/${words[0]}
    with "$file" "${words[@]}"
    echo old >"$file"
    (ulimit -f 0 && exec "$gpuplan" "${command[@]}" 2>&1 >/dev/null) | cat >"$work/err"
    code=${PIPESTATUS[0]}
    kept "$file" 'File too large' "ulimit -f: $line"
  fi
  if [[ $full = yes && $line != *launches* ]]; then # of which there are none
    file=$work/full/${words[0]}
    with "$file" "${words[@]}"
    echo old >"$file"
    cat /dev/zero >"$work/full/fill" 2>/dev/null
    "$gpuplan" "${command[@]}" >/dev/null 2>"$work/err"
    code=$?
    kept "$file" 'No space left on device' "a full disk: $line"
    rm -f "$work/full"/*
  fi
done

# check --update edits its file in the same way.
mkdir "$work/budget"
cp $model "$work/budget/mlp.yaml"
printf 'gpuplan: 1\nchecks:\n  - model: mlp.yaml\n    batch: 2\n    budget: {peak: 1 KiB}\n' >"$work/budget/gpuplan.yaml"
cp "$work/budget/gpuplan.yaml" "$work/before.yaml"
(cd "$work/budget" && ulimit -f 0 && exec "$gpuplan" check --update 2>&1 >/dev/null) | cat >"$work/err"
[ "${PIPESTATUS[0]}" -eq 4 ] || fail "check --update above a limit: $(head -n 1 "$work/err")"
cmp -s "$work/budget/gpuplan.yaml" "$work/before.yaml" || fail "check --update above a limit: the budget is lost"
(cd "$work/budget" && "$gpuplan" check --update) >"$work/out" 2>&1 || fail "check --update: $(head -n 1 "$work/out")"
[ "$(find "$work/budget" -type f | wc -l)" = 2 ] || fail "check --update: a draft is left behind"

# A job's summary is added to.
export GITHUB_STEP_SUMMARY=$work/summary.md
echo before >"$GITHUB_STEP_SUMMARY"
expect 0 . check $model --batch 2 --max-peak 8GiB -o "md:$GITHUB_STEP_SUMMARY"
expect 0 . check $model --batch 2 --max-peak 8GiB -o "md:$GITHUB_STEP_SUMMARY"
[ "$(head -n 1 "$GITHUB_STEP_SUMMARY")" = before ] || fail "the summary of another step is lost"
[ "$(grep -c '^before$\|gpuplan' "$GITHUB_STEP_SUMMARY")" -ge 3 ] || fail "a step's summary is not added"
unset GITHUB_STEP_SUMMARY

# A signal while it is written, whenever that is, leaves the old file or the whole new one.
sweep=(sweep zoo:mlp --over batch=1:4000 -j 1 -o "$work/signal/sweep.csv")
mkdir "$work/signal"
"$gpuplan" "${sweep[@]}" --format json >/dev/null 2>&1 || fail 'a sweep'
mv "$work/signal/sweep.csv" "$work/whole.csv"
for delay in 0.02 0.05 0.1 0.15 0.2 0.25 0.3 0.4 0.5 0.6; do
  for signal in INT TERM HUP; do
    echo old >"$work/signal/sweep.csv"
    timeout -s $signal $delay "$gpuplan" "${sweep[@]}" --format json >/dev/null 2>&1
    [ "$(cat "$work/signal/sweep.csv")" = old ] || cmp -s "$work/signal/sweep.csv" "$work/whole.csv" ||
      fail "SIG$signal after $delay s: half a file"
    [ "$(find "$work/signal" -type f | wc -l)" = 1 ] || fail "SIG$signal after $delay s: a draft is left behind"
  done
done

# Pipes, /dev/stdout and the targets of links are written through.
plan=(plan $model -b 2 --gpu t4)
"$gpuplan" "${plan[@]}" -o "$work/plan.json" >"$work/screen" || fail 'a plan'
mkfifo "$work/pipe.json"
cat "$work/pipe.json" >"$work/out" &
"$gpuplan" "${plan[@]}" -o "$work/pipe.json" >/dev/null || fail 'a pipe'
wait
cmp -s "$work/out" "$work/plan.json" && [ -p "$work/pipe.json" ] || fail 'a report does not go through a pipe'
for stdout in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
  "$gpuplan" "${plan[@]}" -o json:$stdout | cmp -s - <(cat "$work/plan.json" "$work/screen") || fail "$stdout, a pipe"
  "$gpuplan" "${plan[@]}" -o json:$stdout >"$work/out"
  cmp -s "$work/out" <(cat "$work/plan.json" "$work/screen") || fail "$stdout, a file"
done
"$gpuplan" "${plan[@]}" -o json:/dev/fd/9 9>"$work/out" >/dev/null 2>&1
cmp -s "$work/out" "$work/plan.json" || fail '/dev/fd/9'
"$gpuplan" "${plan[@]}" -o json:>(cat >"$work/out") >/dev/null
mkdir "$work/there"
echo old >"$work/there/plan.json"
ln -s there/plan.json "$work/link.json"
"$gpuplan" "${plan[@]}" -o "$work/link.json" >/dev/null || fail 'a link'
[ -L "$work/link.json" ] && cmp -s "$work/there/plan.json" "$work/plan.json" || fail 'the target of a link is not written'
expect 4 'cannot write /dev/full: No space left' "${plan[@]}" -o json:/dev/full
# A mount of one file cannot be replaced: it is written in place, and is safe from a full disk all the same.
if [ $full = yes ]; then
  echo old >"$work/full/plan.json"
  touch "$work/mounted.json"
  mount --bind "$work/full/plan.json" "$work/mounted.json"
  cat /dev/zero >"$work/full/fill" 2>/dev/null
  expect 4 'cannot write .*No space left' "${plan[@]}" -o "$work/mounted.json"
  [ "$(cat "$work/mounted.json")" = old ] || fail 'a full disk: the old file is lost that is written in place'
  rm "$work/full/fill"
  expect 0 . "${plan[@]}" -o "$work/mounted.json"
  cmp -s "$work/full/plan.json" "$work/plan.json" || fail 'a mount of one file is not written'
  umount "$work/mounted.json" "$work/full"
fi

# A slip of -o costs no model, budget, trace or script.
cp $model "$work/mine.yaml"
cp $trace "$work/mine.trace"
cp $history "$work/mine.tsv.gz"
cp "$work/before.yaml" "$work/gpuplan.yaml"
printf '#!/usr/bin/env python3\nimport torch\n' >"$work/train"
for word in 'mine.yaml a model' 'mine.trace a trace' 'mine.tsv.gz a trace' 'gpuplan.yaml a budget' 'train a script'; do
  file=$work/${word%% *}
  cp "$file" "$work/copy"
  for line in "${writes[@]}"; do
    read -ra words <<<"$line"
    [[ " ${words[*]} " != *' --force '* ]] || continue # import and init have their own rule
    case "$line" in
      *--emit\ sky*) target=$work/kept.yaml ;;
      *--emit\ slurm*) target=$work/kept.sh ;;
      *.svg*) target=$work/kept.svg ;;
      *launches*|*'instances import'*) target=$work/kept ;;
      *) target=json:$work/kept ;;
    esac
    cp "$file" "${target#json:}"
    with "$target" "${words[@]}"
    expect 2 "would overwrite ${word#* }$" "${command[@]}"
    cmp -s "$file" "${target#json:}" || fail "$line: ${word#* } is lost"
    rm "${target#json:}"
  done
  cp "$file" "$work/kept"
  expect 0 . "${plan[@]}" -o "json:$work/kept" --force
  cmp -s "$work/kept" "$work/plan.json" || fail "--force does not replace ${word#* }"
done

exit $status
