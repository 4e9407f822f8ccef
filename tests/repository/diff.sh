#!/usr/bin/env bash
# gpuplan diff on repositories as people and CI systems have them: commits, merges, shallow clones, renames, new and
# deleted models, bad words. $GPUPLAN is the binary.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
command -v git >/dev/null || { echo "git is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for variable in $(compgen -e | grep -E '^(GIT|GITHUB|CI|BUILD|SYSTEM)_' || true); do unset "$variable"; done
unset NO_COLOR CLICOLOR_FORCE LC_ALL LC_CTYPE
export LANG=C.UTF-8 HOME=$work GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

# expect CODE PATTERN WORDS...: `gpuplan diff WORDS...` ends so, and says so: on standard output with code 0 or 1, else
# on standard error, with nothing on standard output.
expect() {
  local code=$1 pattern=$2 actual=0 stream=out
  shift 2
  "$gpuplan" diff "$@" >"$work/out" 2>"$work/err" </dev/null || actual=$?
  [ "$code" -le 1 ] || stream=err
  [ "$actual" -eq "$code" ] || fail "diff $*: exit $actual, not $code: $(head -n 1 "$work/err")"
  grep -qE -- "$pattern" "$work/$stream" || fail "diff $*: no '$pattern' in: $(cat "$work/$stream")"
  [ "$code" -le 1 ] || [ ! -s "$work/out" ] || fail "diff $*: an error, and text on standard output"
}
commit() {
  git add --all
  git commit --quiet --allow-empty -m "$1"
}
write_model() { # FILE WIDTH: a perceptron
  printf 'gpuplan: 1\nvars: {width: %s}\ninput: {shape: [64]}\nlayers:\n  - fc1: Linear(64, $width)\n  - ReLU()\n  - fc2: Linear(_, 10)\nloss: CrossEntropyLoss()\n' \
    "$2" >"$1"
}

# A repository with main, and a branch from its first commit that makes the model wider.
mkdir "$work/repository"
cd "$work/repository"
git init --quiet --initial-branch=main
mkdir configs
write_model configs/mlp.yaml 128
printf 'gpuplan: 1\nextends: ../common/base.yaml\nname: derived\n' >configs/derived.yaml
mkdir common
write_model common/base.yaml 64
write_model configs/old_name.yaml 32
commit first
first=$(git rev-parse HEAD)
git tag v1
git checkout --quiet -b topic
write_model configs/mlp.yaml 256
commit wider
git checkout --quiet main
touch elsewhere
commit elsewhere
second=$(git rev-parse HEAD)
git checkout --quiet topic

# Which base: the merge base of main by itself, a commit by name, two commits.
expect 0 "^base ${first:0:7} \(merge base of main\) → working tree$" -- configs/mlp.yaml
expect 0 "^base ${first:0:7} \(merge base of main\) → working tree$" configs/mlp.yaml
expect 0 "^base ${second:0:7} \(main\) → working tree$" main -- configs/mlp.yaml
expect 0 "^base ${first:0:7} \(merge base of main\) → working tree$" --merge-base main -- configs/mlp.yaml
expect 0 "^base ${first:0:7} \(v1\) → [0-9a-f]{7} \(HEAD\)$" v1 HEAD -- configs/mlp.yaml
expect 0 "^base ${first:0:7} → working tree$" "${first:0:12}" -- configs/mlp.yaml
# What has changed: 64 * 128 + 128 and 128 * 10 more parameters; the line; the run as the flags say.
expect 0 '^  params +9,610 +→ +19,210 +\+9,600 +\+99.9 %$' -- configs/mlp.yaml
expect 0 '^  cause  configs/mlp.yaml:2  vars.width: 128 → 256$' -- configs/mlp.yaml
expect 0 '^configs/mlp.yaml · train · batch 8 · fp32 · adam' main -- configs/mlp.yaml -b 8 --opt adam
expect 0 '^  step time ' main -- configs/mlp.yaml -b 8 --gpu h100
expect 0 '^  no difference: the models are the same once expanded$' main -- configs/mlp.yaml --set width=128
sed 's/Dropout(0.5)/Dropout(0.4)/' "$source/configs/models/mlp.yaml" >"$work/other.yaml"
expect 0 '^  no difference in any figure$' "$source/configs/models/mlp.yaml" "$work/other.yaml" -b 8
expect 0 '^  change  .*other.yaml:11  layers.3.p: 0.5 .default. → 0.4$' "$source/configs/models/mlp.yaml" "$work/other.yaml" -b 8
expect 0 '^..No difference.. in any figure$' "$source/configs/models/mlp.yaml" "$work/other.yaml" -b 8 --format md
expect 0 '"what": "vars.width"' main -- configs/mlp.yaml --format json
expect 0 '^total,params,elements,9610,19210,9600$' main -- configs/mlp.yaml --format csv
expect 0 '^\| params \| 9,610 \| 19,210 \| \+9,600 \| \+99.9 % \|$' main -- configs/mlp.yaml --format md
expect 0 '^  params ' main -- configs/mlp.yaml -o "$work/diff.json" -o "md:$work/table"
grep -q '"gpuplan.diff/1"' "$work/diff.json" || fail '-o diff.json'
grep -q "^### configs/mlp.yaml: peak " "$work/table" || fail '-o diff.md'
(cd configs && expect 0 'mlp.yaml:2 ' main -- mlp.yaml)
(cd / && expect 0 'vars.width' main -- "$work/repository/configs/mlp.yaml")

# Whether: exit codes.
expect 1 'params' --exit-code -- configs/mlp.yaml
expect 0 'params' --exit-code HEAD -- configs/mlp.yaml
expect 1 '✖ params \+5% is exceeded: \+9,600 \(\+99.9 %\)' -- configs/mlp.yaml --fail-on 'params +5%'
expect 0 '✔ params \+9600: ' -- configs/mlp.yaml --fail-on 'params +9600'
expect 1 '✖ params \+9599 ' -- configs/mlp.yaml --fail-on 'peak +900%' --fail-on 'params +9599'
expect 1 '✖ reserved \+0%|✔ reserved' -- configs/mlp.yaml --fail-on 'params +1' --fail-on 'reserved +0%'
expect 2 'did you mean "peak"' -- configs/mlp.yaml --fail-on 'peek +5%'
expect 2 'must begin with \+' -- configs/mlp.yaml --fail-on 'peak 5%'
expect 2 'known for a GPU: --gpu' -- configs/mlp.yaml --fail-on 'seconds +5%'

expect 1 'params' --strict -- configs/mlp.yaml # no --gpu
expect 0 'params' --strict --gpu t4 -- configs/mlp.yaml

# What is extended is read from the same commit, and its lines are shown.
write_model common/base.yaml 96
expect 0 '^  cause +configs/../common/base.yaml:2 +vars.width: 64 → 96$' main -- configs/derived.yaml
mkdir moved
git mv common/base.yaml moved/base.yaml
sed -i 's,common,moved,' configs/derived.yaml
expect 0 '^  cause +configs/../moved/base.yaml:2 +vars.width: 64 → 96$' main -- configs/derived.yaml
git reset --quiet --hard

# Renamed, new, deleted.
git mv configs/old_name.yaml configs/new_name.yaml
expect 0 '^configs/new_name.yaml \(configs/old_name.yaml at [0-9a-f]{7}\)' main -- configs/new_name.yaml
expect 0 '"renamed": true' main -- configs/new_name.yaml --format json
write_model configs/added.yaml 8
expect 0 'new model · there is no configs/added.yaml at ' main -- configs/added.yaml
expect 1 'new model' main --exit-code -- configs/added.yaml
rm configs/mlp.yaml
expect 0 'deleted model · there is no configs/mlp.yaml in the working tree' main -- configs/mlp.yaml
expect 3 'cannot read configs/nowhere.yaml' main -- configs/nowhere.yaml
expect 3 'there is no configs/nowhere.yaml at ' main HEAD -- configs/nowhere.yaml
git reset --quiet --hard
rm configs/added.yaml

# A base that cannot be planned says at which commit and line.
git checkout --quiet -b broken
sed -i 's/fc1: Linear(64/fc1: Linaer(65/' configs/mlp.yaml
commit broken
sed -i 's/Linaer(65/Linear(64/' configs/mlp.yaml
expect 3 "$(git rev-parse --short=7 HEAD):configs/mlp.yaml:5:" HEAD -- configs/mlp.yaml
printf 'gpuplan: [\n' >configs/mlp.yaml
commit unreadable
expect 3 "$(git rev-parse --short=7 HEAD):configs/mlp.yaml:" HEAD main -- configs/mlp.yaml
git checkout --quiet topic

# Names that nobody should give a file.
hostile=$'configs/-\n|`x`<b>@me.yaml'
write_model "$hostile" 8
commit hostile
write_model "$hostile" 16
expect 0 '^  cause  configs/- \|`x`<b>@me.yaml:2  vars.width: 8 → 16$' HEAD -- "$hostile"
expect 0 '^### configs/- .*&lt;b&gt;@.*me' HEAD --format md -- "$hostile"
expect 0 '"file": "configs/-\\n' HEAD --format json -- "$hostile"
git reset --quiet --hard HEAD~1

# Saved plans, and recorded runs.
plan() { "$gpuplan" plan configs/mlp.yaml -b "$1" --format json 2>/dev/null; }
plan 8 >"$work/8.json"
plan 16 >"$work/16.json"
expect 0 '^  run +batch +8 → 16$' "$work/8.json" "$work/16.json"
expect 0 '^  params +19,210 +→ +19,210 +±0' "$work/8.json" -- configs/mlp.yaml -b 8
expect 0 '^  cause|→ working tree' "$work/8.json" -- configs/mlp.yaml -b 8
expect 0 ' → ' "$work/8.json" configs/mlp.yaml -b 8
sed 's/"version": "[^"]*"/"version": "0.0.1"/' "$work/8.json" >"$work/older.json"
expect 0 'params' "$work/older.json" "$work/8.json"
grep -q 'written by gpuplan 0.0.1' "$work/err" || fail 'no warning of another version'
expect 2 'not planned again' "$work/8.json" "$work/16.json" -b 8
expect 2 'compared with another one' "$work/8.json"
expect 2 'without a model' "$work/8.json" "$work/16.json" -- configs/mlp.yaml
printf '{"schema": "gpuplan.plan/1",\n' >"$work/cut.json"
expect 3 'cut.json:2:1' "$work/cut.json" "$work/8.json"
printf '{"schema": "gpuplan.shadow/1", "tool": {"version": "0.1.0"}, "gpu": "t4", "command": ["python"], "peak": {"allocated_bytes": %s, "reserved_bytes": 40, "device_bytes": 50}, "alive": {"categories": [{"category": "parameters", "bytes": 20}]}}' \
  30 >"$work/run.json"
sed 's/: 30,/: 36,/' "$work/run.json" >"$work/longer_run.json"
expect 0 '^ +\+0.0 +\+60.0 %  everything else$' "$work/run.json" "$work/longer_run.json"

# Saved plans, traces and configurations as a commit has them.
cp "$work/8.json" saved.json
cp "$source/tests/learned/resnet50.trace" net.trace
commit forms
cp "$work/16.json" saved.json
expect 0 '^  run +batch +8 → 16$' HEAD -- saved.json
expect 0 '^  peak .*±0' HEAD -- net.trace -b 64
expect 0 '^  peak .*±0' net.trace net.trace -b 64
expect 2 'not planned again' HEAD -- saved.json -b 8
git reset --quiet --hard HEAD~1

# Several causes: what each does by itself; the rows sum to the difference.
sed -i 's/fc2: Linear(_, 10)/fc2: Linear(_, 100)/' configs/mlp.yaml
expect 0 '^ +\+[0-9.]+ +\+[0-9.]+ % +configs/mlp.yaml:7 +layers.fc2.out_features: 10 → 100$' main -- configs/mlp.yaml
expect 0 '"peak_bytes_by_cause"' main -- configs/mlp.yaml --format json
python3 - "$work/out" <<'END' || fail 'the effects of causes do not sum'
import json, sys
diff = json.load(open(sys.argv[1]))
causes = diff["peak_bytes_by_cause"]
peak = next(t for t in diff["totals"] if t["metric"] == "peak")
assert sum(e["delta"] for e in causes["effects"]) + causes["together"] == peak["delta"] and len(causes["effects"]) == 2
END
git checkout --quiet .

# As CI systems check out a pull request: its merge, then a shallow clone of that.
git checkout --quiet --detach main
git merge --quiet --no-ff -m merge topic
merge=$(git rev-parse HEAD)
GITHUB_REF=refs/pull/7/merge GITHUB_SHA=$merge GITHUB_BASE_REF=main \
  expect 0 "^base ${second:0:7} \(first parent of the pull-request merge\) → working tree$" -- configs/mlp.yaml
CI_MERGE_REQUEST_EVENT_TYPE=merged_result \
  expect 0 "^base ${second:0:7} \(first parent of the pull-request merge\)" -- configs/mlp.yaml
git branch merged
git clone --quiet --depth 1 --branch merged "file://$work/repository" "$work/one"
git clone --quiet --depth 2 --branch merged "file://$work/repository" "$work/two"
cd "$work/one"
GITHUB_REF=refs/pull/7/merge expect 4 'fetch-depth: 2' -- configs/mlp.yaml
expect 4 'fetch-depth: 0' -- configs/mlp.yaml
expect 4 'which is a shallow clone' "$first" -- configs/mlp.yaml
cd "$work/two"
GITHUB_REF=refs/pull/7/merge expect 0 "^base ${second:0:7} \(first parent" -- configs/mlp.yaml

# Words that are wrong, and words that would like to be options.
cd "$work/repository"
git checkout --quiet topic
expect 2 'nothing to compare'
expect 2 'no model after --' main --
expect 2 'main is a commit, and no model is given' main
expect 2 'did you mean "main"' mian -- configs/mlp.yaml
expect 2 'unexpected argument: "c"' a b c -- configs/mlp.yaml
expect 2 'only one model may follow --' main -- configs/mlp.yaml configs/derived.yaml
expect 2 'unknown flag --upload-pack' --upload-pack=x -- configs/mlp.yaml
expect 2 'no commit contains it' main -- zoo:resnet18
expect 0 '^base zoo:resnet18 → zoo:resnet34$' zoo:resnet18 zoo:resnet34
ln -s loop.yaml configs/loop.yaml
commit loop
expect 3 'leads back to itself' HEAD v1 -- configs/loop.yaml
cd "$work"
mkdir plain
write_model plain/a.yaml 8
write_model plain/b.yaml 16
expect 4 'not in a git repository' main -- plain/a.yaml
expect 0 '^  cause  plain/b.yaml:2  vars.width: 8 → 16$' plain/a.yaml plain/b.yaml
git init --quiet empty
write_model empty/a.yaml 8
expect 4 'nothing has been committed' -- empty/a.yaml
PATH=/nonexistent "$gpuplan" diff -- empty/a.yaml >"$work/out" 2>"$work/err" && fail 'no git, and no error'
grep -q 'git is not installed' "$work/err" || fail "without git: $(cat "$work/err")"

# The same bytes in another folder, locale and time zone.
cp -r repository "$work/copy"
cd "$work/repository" && "$gpuplan" diff main -- configs/mlp.yaml >"$work/a" 2>&1
cd "$work/copy" && TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$gpuplan" diff main -- configs/mlp.yaml >"$work/b" 2>&1
cmp -s "$work/a" "$work/b" || fail 'another folder has another answer'

# Liger's kernels are those of both sides.
mkdir "$work/liger" && cd "$work/liger" && git init --quiet
cp "$source/tests/recorded/fine_tuning/models/llama.json" config.json
commit llama
expect 0 '^  peak .* ±0 ' HEAD -- config.json --kernels liger --seq 64

exit $status
