#!/usr/bin/env bash
# gpuplan check in real git repositories, as a pull request meets it. $GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
command -v git >/dev/null || { echo "no git"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NO_COLOR CLICOLOR_FORCE LC_ALL LC_CTYPE GITHUB_REF GITHUB_BASE_REF GITHUB_STEP_SUMMARY
for name in $(env | grep -oE '^(GIT|CI)_?[A-Z_]*=' | tr -d =); do unset "$name"; done
export LANG=C.UTF-8 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2026-11-01T00:00:00Z' GIT_COMMITTER_DATE='2026-11-01T00:00:00Z'
export SOURCE_DATE_EPOCH=1795305600 # 2026-11-22
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

# expect CODE PATTERN ARGUMENTS...: gpuplan check; the exit code, and a pattern of standard output, for codes above 1 of
# both streams.
expect() {
  local code=$1 pattern=$2 actual
  shift 2
  "$gpuplan" check "$@" >"$work/out" 2>"$work/err" </dev/null
  actual=$?
  [ "$code" -le 1 ] || cat "$work/err" >>"$work/out"
  [ "$actual" -eq "$code" ] || fail "check $*: exit $actual, not $code: $(tail -n 3 "$work/out" "$work/err")"
  grep -qE -- "$pattern" "$work/out" || fail "check $*: no '$pattern' in $(cat "$work/out")"
}
absent() { ! grep -qE -- "$1" "$work/out" || fail "'$1' in $(cat "$work/out")"; }
commit() { git add -A && git commit -qm "$1"; }

# A net of 100 linear layers, each with a line of its own: 1,024 x 1,024.
net() {
  echo "gpuplan: 1"
  echo "name: net"
  echo "vars: {width: 1024}"
  echo "input: {shape: [1024]}"
  echo "layers:"
  for i in $(seq 100); do echo "  - fc$i: Linear(_, 1024)"; done
  echo "  - head: Linear(_, 10)"
}

new_repository() {
  rm -rf "$work/repo" && mkdir -p "$work/repo/configs" && cd "$work/repo" && git init -q -b main
  net >configs/net.yaml
  cp "$root/configs/models/mlp.yaml" configs/
  cat >gpuplan.yaml <<'END'
gpuplan: 1
defaults:
  optimizer: adam
  growth: {peak: {fail: {percent: 5, bytes: 16 MiB}, warn: {percent: 1}}}
checks:
  - name: mlp
    model: configs/mlp.yaml
    batch: 128
    budget: {peak: 1 GiB}
  - name: net
    model: configs/net.yaml
    batch: 64
    budget:
      peak: 2 GiB
      params: {max: 110 M}
END
  commit one
}

# Pass. Nothing but the file is needed, from any folder below it.
new_repository
expect 0 '2 checks: 2 ok'
cd configs && expect 0 '✔  net' && cd ..
expect 0 '✔  net .*±0' --base main
absent 'FAIL'
"$gpuplan" check --base main >"$work/one" 2>&1
LC_ALL=C TZ=Asia/Kolkata "$gpuplan" check --base main >"$work/two" 2>&1
cmp -s "$work/one" "$work/two" || fail "another locale and time zone print something else"
cp -r "$work/repo" "$work/elsewhere" && (cd "$work/elsewhere" && "$gpuplan" check --base main >"$work/two" 2>&1)
cmp -s "$work/one" "$work/two" || fail "another folder prints something else"
rm -rf "$work/elsewhere"

# Names and patterns.
expect 0 '1 check: 1 ok' net
expect 0 '2 checks: 2 ok' 'm*' net
expect 3 'no such check: "nett" — did you mean "net"' nett
expect 3 'limits of one model: gpuplan check configs/mlp.yaml --max-peak' configs/mlp.yaml

# Over the budget, and why: the line of the one layer that changed.
for layer in 1 37 100; do
  sed -i "s/fc$layer: Linear(_, 1024)/fc$layer: Linear(_, 8192)/" configs/net.yaml
  expect 1 "cause  configs/net.yaml:$((layer + 5)) .*1024 → 8192" --base main net
  git checkout -q configs/net.yaml
done
sed -i 's/Linear(_, 1024)/Linear(_, 2048)/' configs/net.yaml
expect 1 'peak .* over the budget of 2 GiB' --base main
grep -qF -- '--> gpuplan.yaml:14:13' "$work/out" || fail "no place of the limit"
grep -qE 'also: params 4[0-9]{2},[0-9]{3},[0-9]{3} is' "$work/out" || fail "the second limit is not named"
expect 0 '2 failed|1 failed' --exit-zero

git checkout -q configs/net.yaml

# Each way out that is printed is under the limit when it is planned.
"$gpuplan" check zoo:resnet50 -b 64 --opt adam --max-peak 4GiB --format json >"$work/json" 2>/dev/null
python3 - "$work/json" "$gpuplan" <<'END' || fail "a way out does not help"
import json, subprocess, sys
check = json.load(open(sys.argv[1]))["checks"][0]
assert len(check["suggestions"]) >= 3, check
for way in check["suggestions"]:
    given = {"--batch": "64", "--opt": "adam"}
    flag, value = way["flags"].split()
    given[flag] = value
    words = [word for pair in given.items() for word in pair]
    text = subprocess.run([sys.argv[2], "zoo:resnet50", *words, "--format", "json"], capture_output=True, text=True).stdout
    assert json.loads(text)["peak"]["allocated_bytes"] == way["value"] <= 4 << 30, way
END

# Raised on purpose: in place, comments kept, the edit shown.
sed -i 's/peak: 2 GiB/peak: 1 MiB  # small/' gpuplan.yaml
expect 0 '\+       peak: [0-9]+ MiB  # small' --update
expect 0 '2 checks: 2 ok'
git diff --stat | grep -q '1 insertion' || fail "--update changed more than a line"
git checkout -q gpuplan.yaml

# Growth: above the percentage but not the bytes is a warning, above both a failure.
sed -i 's/512/576/' configs/mlp.yaml
expect 0 '!  mlp .*\+[0-9.]+ (KiB|MiB) \(\+[0-9.]+ %\)' --base main mlp
sed -i 's/576/4096/' configs/mlp.yaml
expect 1 'peak grew by' --base main mlp
expect 0 '✔  mlp' mlp
git checkout -q configs

# Inherited: over the budget before, and not grown.
sed -i 's/peak: 2 GiB/peak: 1 GiB/' gpuplan.yaml && commit smaller
expect 1 '✖  net' --base HEAD
sed -i 's/optimizer: adam/optimizer: adam\n  inherited: warn/' gpuplan.yaml
expect 0 '!  net .*same as the base' --base HEAD
sed -i 's/fc100: Linear(_, 1024)/fc100: Linear(_, 1100)/' configs/net.yaml
expect 1 '✖  net' --base HEAD
git checkout -q . && git reset -q --hard HEAD~1

# A new model, one that has been renamed, one that is gone.
cp configs/net.yaml configs/other.yaml
printf '  - {name: other, model: configs/other.yaml, batch: 8, budget: {peak: 4 GiB}}\n' >>gpuplan.yaml
expect 0 '✔  other .*new: no such check at' --base main
git reset -q --hard && git rm -q --cached configs/net.yaml && git commit -qm untracked && git add -A
expect 0 '✔  net .*new: no configs/net.yaml at' --base main
git reset -q --hard HEAD~1 && git mv configs/net.yaml configs/net2.yaml && sed -i 's/net.yaml/net2.yaml/' gpuplan.yaml
expect 0 '✔  net .*was configs/net.yaml' --base main
git reset -q --hard && git rm -q configs/net.yaml
expect 3 'no such file: configs/net.yaml' --base main
git reset -q --hard

# A check that has got another name, a value of its matrix that has got another one: no way round the growth.
sed -i 's/name: net/name: net2/; s/batch: 64/batch: 6400/' gpuplan.yaml
expect 1 '✖  net2 .*was net' --base main
git checkout -q gpuplan.yaml
sed -i 's/    batch: 64/    matrix: {batch: [64]}/' gpuplan.yaml && commit matrix
sed -i 's/\[64\]/[6400]/' gpuplan.yaml
expect 1 '✖  net.batch=6400. .*was net.batch=64.' --base HEAD
git reset -q --hard HEAD~1

# A limit that is raised, switched off or taken away leaves a trace.
sed -i 's/peak: 2 GiB/peak: 900 GiB/' gpuplan.yaml
expect 0 '✔  net .*peak was 2 GiB' --base main
sed -i 's/peak: 900 GiB/peak: {max: 2 GiB, level: off}/' gpuplan.yaml
expect 0 '✔  net .*peak level was not there' --base main
git checkout -q gpuplan.yaml && sed -i '/name: mlp/,/peak: 1 GiB/d' gpuplan.yaml
"$gpuplan" check --base main >"$work/out" 2>&1 || fail "a check less: $(cat "$work/out")"
grep -q 'the base has a check mlp, which no longer exists' "$work/out" || fail "a check goes without a word"
git checkout -q gpuplan.yaml

# On the branch itself nothing is inherited; a moved gpuplan.yaml keeps its base.
sed -i 's/peak: 2 GiB/peak: 1 MiB/; s/optimizer: adam/optimizer: adam\n  inherited: warn/' gpuplan.yaml && commit small
expect 1 'which is HEAD: no failure counts as inherited' --base auto
git reset -q --hard HEAD~1
mkdir sub && git mv gpuplan.yaml sub/ && sed -i 's|configs/|../configs/|' sub/gpuplan.yaml
(cd sub && expect 0 '✔  net .*±0' --base main)
git reset -q --hard && rm -rf sub

# A base that cannot be read is said, and nothing grows against it.
echo 'layers: [' >configs/mlp.yaml && commit broken
git checkout -q HEAD~1 configs/mlp.yaml
expect 3 'the base cannot be planned: [0-9a-f]+:configs/mlp.yaml:' --base HEAD
grep -q 'help: --allow-broken-base' "$work/out" || fail "no way past a broken base: $(cat "$work/out")"
expect 0 '✔  mlp .*the base cannot be planned: [0-9a-f]+:configs/mlp.yaml:' --base HEAD --allow-broken-base
git reset -q --hard HEAD~1
echo 'checks: [' >>gpuplan.yaml && commit broken
git checkout -q HEAD~1 gpuplan.yaml
expect 3 "the base's gpuplan.yaml cannot be read: [0-9a-f]+:gpuplan.yaml:" --base HEAD
expect 0 '2 ok' --base HEAD --allow-broken-base
grep -q "cannot be read .*growth is not checked" "$work/err" || fail "a broken base is not told"
expect 2 'needs a base' --allow-broken-base
git reset -q --hard HEAD~1

# Objects that are damaged are not taken for commits or files that are not there: exit 4 and what git says.
damage() { # an object of the base, loose
  local file
  file=.git/objects/$(git rev-parse "$1" | sed 's|^..|&/|')
  chmod +w "$file" && echo damaged >"$file"
}
sed -i 's/fc7: Linear(_, 1024)/fc7: Linear(_, 1025)/' configs/net.yaml && commit later
damage HEAD~1:configs/net.yaml
expect 4 'error: git: .*' --base HEAD~1
absent 'has not needed yet|no object'
expect 0 'the base cannot be planned: git:' --base HEAD~1 --allow-broken-base
git tag damaged HEAD~1 && damage damaged
expect 4 'git fsck' --base damaged
absent 'no commit'
new_repository && git gc -q
for pack in .git/objects/pack/*.pack; do
  chmod +w "$pack" && printf '%0400d' 0 | dd of="$pack" bs=1 conv=notrunc 2>/dev/null
done
expect 4 'git fsck' --base main
absent 'no commit'
new_repository

# The base of a pull request: the first parent of the merge, whatever main has got since.
git checkout -qb topic && sed -i 's/fc7: Linear(_, 1024)/fc7: Linear(_, 1056)/' configs/net.yaml && commit topic
git checkout -q main && sed -i 's/fc9: Linear(_, 1024)/fc9: Linear(_, 1536)/' configs/net.yaml && commit drift
git checkout -q --detach main && git merge -q --no-edit topic
GITHUB_REF=refs/pull/7/merge expect 0 "base $(git rev-parse main | cut -c1-9) .first parent of the pull-request merge" --base auto
grep -qE '✔  net .*\(\+0\.[0-9] %\)' "$work/out" || fail "main's drift counts: $(grep net "$work/out")"
git checkout -q topic
expect 0 "base $(git rev-parse main~1 | cut -c1-9) .merge base" --base auto

# A shallow clone has no base: exit 4 and what to change.
git clone -q --depth 1 "file://$work/repo" "$work/shallow" 2>/dev/null
(cd "$work/shallow" && GITHUB_BASE_REF=main "$gpuplan" check --base auto >"$work/out" 2>&1)
[ $? -eq 4 ] || fail "a shallow clone: $(cat "$work/out")"
grep -q 'fetch-depth' "$work/out" || fail "no way out of a shallow clone: $(cat "$work/out")"
rm -rf "$work/shallow"

# A base that was saved.
new_repository
expect 0 '2 ok' -o "$work/base.json"
sed -i 's/fc7: Linear(_, 1024)/fc7: Linear(_, 32768)/' configs/net.yaml
expect 1 'peak grew by' --base "$work/base.json" net
git checkout -q configs

# Several causes: the one that costs the most is the first, each with what it does by itself.
sed -i 's/fc7: Linear(_, 1024)/fc7: Linear(_, 1056)/; s/fc60: Linear(_, 1024)/fc60: Linear(_, 16384)/' configs/net.yaml
sed -i 's/batch: 64/batch: 65/; s/peak: 2 GiB/peak: 1 MiB/' gpuplan.yaml
expect 1 '  cause +\+[0-9.]+ MiB +configs/net.yaml:65 ' --base HEAD net
grep -qE '  and +\+[0-9.]+ [KM]iB +configs/net.yaml:12 ' "$work/out" || fail "no second cause: $(cat "$work/out")"
grep -qE '  and +\+[0-9.]+ [KM]iB +gpuplan.yaml:12 +batch: 64 → 65' "$work/out" || fail "no flag: $(cat "$work/out")"
expect 1 '^::error file=configs/net.yaml,line=65,' --base HEAD net --format github
"$gpuplan" check --base HEAD net --format json >"$work/json" 2>/dev/null
python3 - "$work/json" <<'END' || fail "effects do not sum"
import json, sys
check = json.load(open(sys.argv[1]))["checks"][0]
total = check["figures"]["peak_bytes"] - check["base_figures"]["peak_bytes"]
assert len(check["causes"]) == 3 and check["causes_together"] is not None
assert sum(c["effect"] for c in check["causes"]) + check["causes_together"] == total, check
END
git checkout -q .

# What --fail-on takes for a no; a comment that says nothing new is empty.
sed -i 's/peak: 2 GiB/peak: 1 MiB/' gpuplan.yaml
expect 0 '1 failed' --fail-on none
expect 2 'needs a base' --fail-on growth
expect 1 '1 failed' --fail-on warn
git checkout -q . && sed -i 's/512/576/' configs/mlp.yaml
expect 1 '1 warned' --base HEAD --fail-on warn
expect 0 '1 warned' --base HEAD --fail-on growth
expect 2 'did you mean "growth"|expects' --fail-on grwth
expect 2 'max-growth' --fail-on 'peak +5%'
expect 2 'contradict' --fail-on warn --exit-zero
expect 0 '1 warned' --base HEAD --quiet-if-unchanged -o "md:$work/comment"
[ -s "$work/comment" ] || fail "what has changed is not told"
git checkout -q .
expect 0 '2 ok' --base HEAD --quiet-if-unchanged -o "md:$work/comment"
[ ! -s "$work/comment" ] || fail "nothing has changed, and it is told"
expect 2 'needs a base' --quiet-if-unchanged

# Where a finding belongs: the line that cannot be read, the file behind a link.
sed -i 's/fc7: Linear(/fc7: Linaer(/' configs/net.yaml
expect 3 '^::error file=configs/net.yaml,line=12,' --format github
git checkout -q . && mkdir real && git mv configs/net.yaml real/ && ln -s ../real/net.yaml configs/net.yaml && commit link
sed -i 's/fc60: Linear(_, 1024)/fc60: Linear(_, 16384)/' real/net.yaml
expect 1 '^::error file=real/net.yaml,line=65,' --base HEAD --format github
git reset -q --hard HEAD~1
printf 'gpuplan: 1\nchecks:\n  - {model: configs/mlp.yaml, batch: 8, budget: {fits: [t4, T4]}}\n' >twice.yaml
expect 3 'is listed twice' --config twice.yaml
rm twice.yaml

# A file that git does not have, a submodule, and what Git LFS keeps.
sed -i 's|configs/mlp.yaml|untracked.yaml|' gpuplan.yaml && commit untracked && cp configs/mlp.yaml untracked.yaml
expect 0 '✔  mlp .*no base: untracked.yaml is not in git' --base HEAD mlp
rm untracked.yaml && git reset -q --hard HEAD~1
git init -q -b main "$work/other" && cp configs/mlp.yaml "$work/other/" &&
  (cd "$work/other" && git add -A && git commit -qm one)
git -c protocol.file.allow=always submodule --quiet add "$work/other" part
sed -i 's|configs/mlp.yaml|part/mlp.yaml|' gpuplan.yaml && commit submodule
expect 0 '✔  mlp .*±0' --base HEAD mlp
sed -i 's/512/4096/' part/mlp.yaml
expect 1 'part/mlp.yaml:[0-9]+ ' --base HEAD mlp
rm -rf "$work/other" part && git reset -q --hard HEAD~1
large=$(sha256sum <configs/mlp.yaml | cut -d' ' -f1)
cp configs/mlp.yaml "$work/mlp"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 1\n' "$large" >configs/mlp.yaml
expect 4 'is a Git LFS pointer' mlp
commit pointer && cp "$work/mlp" configs/mlp.yaml
expect 4 'stored in Git LFS, and this clone lacks its content' --base HEAD mlp
mkdir -p ".git/lfs/objects/${large:0:2}/${large:2:2}"
cp "$work/mlp" ".git/lfs/objects/${large:0:2}/${large:2:2}/$large"
expect 0 '✔  mlp .*±0' --base HEAD mlp
git reset -q --hard HEAD~1

# Models in other forms have a base too: ONNX, a folder of Hugging Face's.
mkdir hf && cp "$root/tests/huggingface/bert-base-cased.json" hf/config.json
cp "$root/tests/onnx/convnext.onnx" configs/net.onnx
printf '  - {name: hf, model: hf, batch: 2, budget: {peak: 4 GiB}}\n' >>gpuplan.yaml
onnx=0
"$gpuplan" import configs/net.onnx >/dev/null 2>"$work/err" || onnx=$?
[ "$onnx" -eq 4 ] || printf '  - {name: onnx, model: configs/net.onnx, batch: 8, budget: {peak: 1 GiB}}\n' >>gpuplan.yaml
commit forms
expect 0 '✔  hf .*±0' --base HEAD
[ "$onnx" -eq 4 ] || grep -qE '✔  onnx .*±0' "$work/out" || fail "no base of an ONNX model: $(cat "$work/out")"
sed -i 's/"num_hidden_layers": 12/"num_hidden_layers": 24/' hf/config.json
expect 1 'import:hf/config.json' --base HEAD hf
git reset -q --hard HEAD~1

# Mutes end.
sed -i 's/    budget: {peak: 1 GiB}/    budget: {peak: 1 KiB}\n    skip_until: 2026-11-22\n    reason: "moving, see #1"/' gpuplan.yaml
expect 0 'muted until 2026-11-22: moving, see #1'
SOURCE_DATE_EPOCH=1795392000 expect 1 '✖  mlp .*was muted until 2026-11-22'
git checkout -q gpuplan.yaml

printf 'gpuplan: 1\nchecks:\n  - {model: configs/mlp.yaml, batch: 8, growth: 5%%}\n' >growth_only.yaml
# Wrong input: exit 3, wrong flags: exit 2.
expect 2 'needs a base' configs/mlp.yaml --max-peak 1GiB --max-growth 5%
expect 2 'belongs to a check of the command line' --batch 8
expect 3 'nothing was checked' --config growth_only.yaml
expect 2 'would overwrite a budget' -o json:gpuplan.yaml
expect 2 'would overwrite' -o json:gpuplan.yaml --force
expect 2 'only prints the edit' --update --exit-zero
expect 0 '1 ok' "$PWD/configs/mlp.yaml" -b 8 --max-peak 1GiB
expect 2 "is not a commit" --base=--output=/tmp/x
expect 2 'no commit|nearest|did you mean|is not' --base no-such-branch
expect 2 'an amount such as' configs/mlp.yaml --max-peak lots
expect 1 'peak .* over the budget of 1MiB' configs/mlp.yaml -b 64 --max-peak 1MiB
expect 0 '1 check: 1 ok' configs/mlp.yaml -b 64 --max-peak 1GiB --fits t4,l4
expect 2 'excludes commits' --base '^main'
printf 'gpuplan: 1\nchecks:\n  - {model: ../outside.yaml, budget: {peak: 1 GiB}}\n' >gpuplan.yaml
cp configs/mlp.yaml ../outside.yaml
expect 3 'the model is outside'
ln -s loop2 loop1 && ln -s loop1 loop2 && ln -s ../../outside.yaml configs/link.yaml
sed -i 's|../outside.yaml|loop1|' gpuplan.yaml
expect 3 'a loop of symbolic links'
sed -i 's|loop1|configs/link.yaml|' gpuplan.yaml
expect 3 'the model is outside'
sed -i 's|configs/link.yaml|/etc/hostname|' gpuplan.yaml
expect 3 'a path from gpuplan.yaml'
# Nothing outside is read or quoted: not by extends:, not for a GPU, not by a link in a folder.
echo 'a secret: [' >../secret.yaml
printf 'gpuplan: 1\nextends: ../../secret.yaml\n' >configs/extending.yaml
mkdir configs/folder && ln -s ../../../secret.yaml configs/folder/config.json
for check in 'model: configs/extending.yaml, ' 'model: configs/folder, ' \
  'model: configs/mlp.yaml, gpu: ../secret.yaml, ' "model: configs/mlp.yaml, gpu: $work/secret.yaml, "; do
  printf 'gpuplan: 1\nchecks:\n  - {%sbatch: 8, budget: {peak: 1 GiB}}\n' "$check" >gpuplan.yaml
  expect 3 'is outside'
  absent 'a secret'
done
printf 'gpuplan: 1\nchecks:\n  - {model: configs/mlp.yaml, batch: no, budget: {peak: 1 GiB}}\n' >gpuplan.yaml
expect 3 '--batch expects a whole number'
grep -q 'gpuplan.yaml:3:38' "$work/out" || fail "a wrong flag has no place"
printf 'gpuplan: 1\nchecks: []\n' >gpuplan.yaml
expect 3 'no check is listed'
rm gpuplan.yaml
expect 3 'there is no gpuplan.yaml'
mkdir "$work/bare" && cd "$work/bare"
cp "$root/configs/models/mlp.yaml" .
"$gpuplan" init --budget mlp.yaml -b 64 --opt adam -o gpuplan.yaml >"$work/out" 2>&1 || fail "init: $(cat "$work/out")"
expect 0 '1 check: 1 ok'
expect 4 'this is not a git repository' --base auto
printf 'gpuplan: 1\ninput: {shape: [8]}\nlayers: [ReLU()]\n' >bare.yaml  # no parameters, so no limit of them: it would be 0
"$gpuplan" init --budget bare.yaml -b 4 --mode infer -o gpuplan.yaml --force >"$work/out" 2>&1 || fail "init: $(cat "$work/out")"
expect 0 '1 check: 1 ok'

# Recordings: a learned trace, a saved plan. They have figures and no layers.
new_repository
cp "$root/tests/learned/resnet50.trace" configs/
"$gpuplan" configs/mlp.yaml -b 128 --format json >configs/saved.json 2>/dev/null
cat >gpuplan.yaml <<'END'
gpuplan: 1
checks:
  - {name: learned, model: configs/resnet50.trace, batch: 64, budget: {peak: 100 GiB, fits: h200}}
  - {name: saved, model: configs/saved.json, budget: {peak: 1 GiB, params: {min: 500 k, max: 600 k}}}
END
commit recordings
expect 0 '2 checks: 2 ok' --base HEAD
sed -i 's/"allocated_bytes": [0-9]*/"allocated_bytes": 999999999/' configs/saved.json
sed -i 's/batch: 64/batch: 80/; s/100 GiB/1 GiB/; s/budget: {peak: 1 GiB, params/growth: 5%, budget: {peak: 1 GiB, params/' gpuplan.yaml
expect 1 '✖  learned .*\(\+[0-9.]+ %\)' --base HEAD
grep -qE '✖  saved +954 MiB' "$work/out" || fail "the saved plan's growth passes: $(grep saved "$work/out")"
sed -i 's/peak: 1 GiB, params/modules: {"*": {saved: 1 GiB}}, params/' gpuplan.yaml
expect 3 'is a recording, which has no modules' saved
sed -i 's|model: configs/saved.json|model: configs/mlp.yaml, peft: ia3|' gpuplan.yaml
expect 3 'peft ia3 is run as it is, without modules' saved
sed -i 's/batch: 80/optimizer: adam/' gpuplan.yaml
expect 3 'a trace records one fixed run' learned
git checkout -q .

# Every format at once, the same bytes when run again.
new_repository && sed -i 's/peak: 2 GiB/peak: 1 GiB/' gpuplan.yaml
for run in one two; do
  mkdir -p "$work/$run.d"
  GITHUB_STEP_SUMMARY=$work/$run.d/summary.md "$gpuplan" check --base main --format github -o "$work/$run.d/summary.md" \
    -o "$work/$run.d/c.json" -o "$work/$run.d/c.md" -o "$work/$run.d/c.xml" -o "$work/$run.d/c.sarif" \
    -o "$work/$run.d/metrics.txt" -o "gitlab:$work/$run.d/quality" -o "$work/$run.d/c.txt" >"$work/$run.d/github" 2>/dev/null
  [ $? -eq 1 ] || fail "all formats: not exit 1"
done
diff -r "$work/one.d" "$work/two.d" >/dev/null || fail "two runs differ"
[ "$(tail -n 1 "$work/one.d/metrics.txt")" = '# EOF' ] || fail "OpenMetrics does not end"
grep -q '^::error file=gpuplan.yaml,line=14,col=13,' "$work/one.d/github" || fail "no annotation"
python3 - "$work/one.d" <<'END' || fail "a format cannot be read"
import json, sys, xml.dom.minidom
folder = sys.argv[1]
suites = xml.dom.minidom.parse(folder + "/c.xml").documentElement
assert suites.tagName == "testsuites" and suites.getAttribute("failures") == "1"
cases = suites.getElementsByTagName("testcase")
assert [c.getAttribute("name") for c in cases] == ["mlp", "net"] and cases[1].getElementsByTagName("failure")
sarif = json.load(open(folder + "/c.sarif"))
run = sarif["runs"][0]
assert sarif["version"] == "2.1.0" and len(run["results"]) == 1
ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
for result in run["results"]:
    assert ids[result["ruleIndex"]] == result["ruleId"] and result["level"] in ("error", "warning", "note", "none")
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] >= 1 and region["startColumn"] >= 1 and region["endColumn"] > region["startColumn"]
assert json.load(open(folder + "/quality"))[0]["severity"] == "major"
END
# A step that several GPUs share, of the rank that needs the most; growth is against the same on the base.
new_repository
cat >several.yaml <<'END'
gpuplan: 1
checks:
  - {name: shared, model: configs/net.yaml, batch: 64, optimizer: adam, matrix: {gpus: [2, 4]}, fsdp: param=bf16, growth: 1%, budget: {fits: [t4]}}
END
commit 'several GPUs'
expect 0 '✔  shared\[gpus=4\]' --config several.yaml --base HEAD
peak=$("$gpuplan" check --config several.yaml --format json 'shared?gpus=4?' 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["checks"][0]["figures"]["peak_bytes"])' 2>/dev/null)
planned=$("$gpuplan" configs/net.yaml --batch 64 --opt adam --gpus 4 --fsdp param=bf16 --format json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["peak"]["allocated_bytes"])')
[ -n "$peak" ] && [ "$peak" = "$planned" ] || fail "a check of four GPUs: $peak, not $planned"
sed -i 's/batch: 64/batch: 8192/' several.yaml
expect 1 'shared.gpus=2.* grew by' --config several.yaml --base HEAD
sed -i 's/batch: 8192/batch: 63/' several.yaml
expect 3 'cannot be divided equally among 2 ranks' --config several.yaml
sed -i 's/batch: 63/batch: 64, rank: ""/' several.yaml
expect 3 'rank: expects a value' --config several.yaml
sed -i 's/, rank: ""//; s/fsdp: param=bf16/fsdp: param=bf17/' several.yaml
expect 3 'did you mean "bf16"' --config several.yaml
cd "$root"

exit $status
