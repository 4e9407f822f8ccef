#!/usr/bin/env bash
# The GitHub action, the GitLab job and the pre-commit hook, their commands run as the runners would. $GPUPLAN is the
# binary that stands in for the one they build.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
command -v git >/dev/null || { echo "no git"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in $(env | grep -oE '^(GIT|CI|GITHUB)_[A-Z_]*=' | tr -d =); do unset "$name"; done
export LANG=C.UTF-8 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
status=0
fail() {
  echo "FAIL  $1"
  status=1
}

# A pull request that makes a model larger, merged by the CI system.
mkdir -p "$work/repo/configs" && cd "$work/repo" && git init -q -b main
cp "$root/configs/models/mlp.yaml" configs/
printf 'gpuplan: 1\ndefaults: {growth: 5%%}\nchecks:\n  - {model: configs/mlp.yaml, batch: 128, budget: {peak: 1 GiB}}\n' >gpuplan.yaml
git add -A && git commit -qm one && git checkout -qb topic
sed -i 's/512/4096/' configs/mlp.yaml && git commit -qam larger
git checkout -q main && echo >README && git add README && git commit -qm drift
git checkout -q --detach main && git merge -q --no-edit topic 2>/dev/null

# GitHub: the action's step, with the runner's variables and files.
mkdir "$work/temp" && : >"$work/summary" && : >"$work/outputs"
step=$(sed -n "s/^ *run: '\(.*\)'$/\1/p" "$root/tools/action/action.yml")
[ -n "$step" ] || fail "the action runs nothing"
export GITHUB_ACTION_PATH=$root/tools/action GITHUB_WORKSPACE=$work/repo RUNNER_TEMP=$work/temp
export GITHUB_STEP_SUMMARY=$work/summary GITHUB_OUTPUT=$work/outputs
GPUPLAN=$gpuplan GITHUB_REF=refs/pull/3/merge GPUPLAN_BASE=auto GPUPLAN_ARGUMENTS='mlp' bash -e -c "$step" >"$work/log" 2>"$work/err"
[ $? -eq 1 ] || fail "the action: $(cat "$work/log" "$work/err")"
grep -q '^::error file=configs/mlp.yaml,line=[0-9]*,title=gpuplan growth::' "$work/log" || fail "no annotation: $(cat "$work/log")"
grep -q 'first parent of the pull-request merge' "$work/summary" || fail "no summary: $(cat "$work/summary")"
grep -q '^::stop-commands::' "$work/log" || fail "the log is not kept from being read as commands"
for output in comment sarif junit; do
  file=$(sed -n "s/^$output=//p" "$work/outputs")
  [ -s "$file" ] || fail "the output $output names no file"
done

# As actions/checkout leaves it, by fetch-depth: one commit is too few, which is told apart from a budget that is broken.
merge=$(git rev-parse HEAD)
for depth in 1 2; do
  git init -q "$work/checkout$depth" && cd "$work/checkout$depth" || exit 1
  git fetch -q --no-tags --depth "$depth" "file://$work/repo" "+$merge:refs/remotes/pull/3/merge"
  git checkout -q --force refs/remotes/pull/3/merge
  GPUPLAN=$gpuplan GITHUB_REF=refs/pull/3/merge GITHUB_SHA=$merge GITHUB_BASE_REF=main GPUPLAN_BASE=auto \
    GITHUB_WORKSPACE=$work/checkout$depth bash --noprofile --norc -eo pipefail -c "$step" >"$work/log" 2>"$work/err"
  echo $? >"$work/code$depth"
  [ "$depth" = 2 ] || grep -q '^::error title=gpuplan check::' "$work/log" || fail "no annotation without a base"
done
[ "$(cat "$work/code1" "$work/code2" | xargs)" = '4 1' ] || fail "fetch-depth 1 and 2: $(cat "$work/code1" "$work/code2" | xargs)"
cd "$work/repo"

# Its arguments write in the workspace only, whatever way a file is named.
for argument in "-ojson:$work/stolen.json" "--output=$work/stolen.json" "-o../stolen.json" '-qo../stolen.json'; do
  GPUPLAN=$gpuplan GPUPLAN_ARGUMENTS=$argument bash -e -c "$step" >"$work/log" 2>"$work/err"
  [ $? -eq 2 ] && grep -q 'GPUPLAN_WRITE_ONLY allows' "$work/err" || fail "the action's $argument: $(cat "$work/err")"
done
ln -s "$work" link
GPUPLAN=$gpuplan GPUPLAN_ARGUMENTS=$'-o\nlink/stolen.json' bash -e -c "$step" >"$work/log" 2>"$work/err"
[ ! -e "$work/stolen.json" ] || fail "the action writes outside the workspace"
rm link
GPUPLAN=$gpuplan GPUPLAN_ARGUMENTS=$'-o\nmine.json' bash -e -c "$step" >"$work/log" 2>"$work/err"
[ -s mine.json ] || fail "the action does not write in the workspace: $(cat "$work/err")"
rm mine.json

# A release, which the action, the hook and the job download: its archive is what SHA256SUMS says.
version=$(sed -nE 's/^project\(gpuplan VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
name=gpuplan-$version-linux-x86_64
mkdir -p "$work/releases/v$version" "$work/$name/bin" && cp "$gpuplan" "$work/$name/bin/gpuplan"
tar -czf "$work/releases/v$version/$name.tar.gz" -C "$work" "$name"
(cd "$work/releases/v$version" && sha256sum "$name.tar.gz" >SHA256SUMS)
program() { env -u GPUPLAN XDG_CACHE_HOME="$work/cache" "$@" "$root/tools/action/program" 2>"$work/err"; }
if command -v curl >/dev/null; then
  export GPUPLAN_RELEASES=file://$work/releases
  [ "$("$(program)" --version)" = "$("$gpuplan" --version)" ] || fail "the release is not found: $(cat "$work/err")"
  mv "$work/releases" "$work/gone"
  "$(program)" --version >"$work/log" || fail "the release is downloaded twice: $(cat "$work/err")"
  program XDG_CACHE_HOME="$work/cache2"
  [ $? -eq 4 ] && grep -q 'GPUPLAN_BUILD=1' "$work/err" || fail "without a release: $(cat "$work/err")"
  mv "$work/gone" "$work/releases" && echo more >>"$work/releases/v$version/$name.tar.gz"
  program XDG_CACHE_HOME="$work/cache2"
  [ $? -eq 4 ] && grep -q 'is not what SHA256SUMS says' "$work/err" || fail "a release that was changed: $(cat "$work/err")"
  [ -z "$(ls -A "$work/cache2/gpuplan")" ] || fail "a failed download leaves something"
  tar -czf "$work/releases/v$version/$name.tar.gz" -C "$work" "$name"
  (cd "$work/releases/v$version" && sha256sum "$name.tar.gz" >SHA256SUMS)
fi
# Actions of others are pinned to a commit.
! grep -hE '^ *(- )?uses: ' "$root"/tools/action/*.yml "$root"/docs/*.md | grep -vE '@[0-9a-f]{40} |OWNER/gpuplan' || fail "an action is not pinned"

# GitLab: the job, in a merge request's pipeline: what it downloads, and its script.
script() { sed -n "/^  $1:/,/^  [a-z]*:/p" "$root/tools/action/gitlab.yml" | sed -nE 's/^    - (\|$)?//p; s/^      (.*)/\1/p'; }
grep -qF "GPUPLAN_VERSION: \"$version\"" "$root/tools/action/gitlab.yml" || fail "the job downloads another version than $version"
git checkout -q topic && git clone -q "$work/repo" "$work/clone" && cd "$work/clone"
{ script before_script | grep -v apt-get; script script; } >"$work/job.sh"
if command -v curl >/dev/null; then
  CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main CI_MERGE_REQUEST_EVENT_TYPE=detached GPUPLAN_VERSION=$version bash -e "$work/job.sh" >"$work/log" 2>&1
  [ $? -eq 1 ] || fail "the job: $(cat "$work/log")"
  for file in gpuplan.xml gpuplan-quality.json metrics.txt; do
    [ -s "$file" ] || fail "the job leaves no $file"
    grep -q "$file" "$root/tools/action/gitlab.yml" || fail "no report takes $file"
  done
fi

# pre-commit: the hook's entry, every budget file of the repository, absolute limits only.
cd "$work/repo"
entry=$(sed -n 's/^  entry: //p' "$root/.pre-commit-hooks.yaml")
[ -x "$root/$entry" ] || fail "the hook runs nothing"
hook() { GPUPLAN=$gpuplan "$root/$entry" "$@" >"$work/log" 2>&1; }
hook || fail "the hook: $(cat "$work/log")"
mkdir -p 'team a' && sed 's|configs/|../configs/|; s/1 GiB/1 KiB/' gpuplan.yaml >'team a/gpuplan.yaml'
hook || fail "the hook reads what git does not have: $(cat "$work/log")"
git add 'team a'
hook
[ $? -eq 1 ] || fail "the hook passes over a second budget file: $(cat "$work/log")"
hook --config gpuplan.yaml || fail "the hook's --config: $(cat "$work/log")"
git rm -qf 'team a/gpuplan.yaml' && sed -i 's/1 GiB/1 KiB/' gpuplan.yaml
hook
[ $? -eq 1 ] || fail "the hook passes what is over its budget"

# By the readers and schemas of those who take them, where GPUPLAN_CI_PYTHON names a Python that has them: pip install
# check-jsonschema junitparser prometheus_client pydantic-sarif
python=${GPUPLAN_CI_PYTHON:-python3}
if ! "$python" -c 'import check_jsonschema, junitparser, prometheus_client, pydantic_sarif' 2>/dev/null; then
  echo "skipped: no check-jsonschema, junitparser, prometheus_client and pydantic-sarif in $python"
  exit $status
fi
"$gpuplan" check --base main -o "$work/c.sarif" -o "$work/c.xml" -o "$work/metrics.txt" -o "$work/c.json" >"$work/log" 2>&1
"$gpuplan" diff main --format json -b 8 -- configs/mlp.yaml >"$work/d.json" 2>/dev/null
validate() { "$python" -m check_jsonschema "$@" >"$work/log" 2>&1 || fail "$*: $(cat "$work/log")"; }
validate --builtin-schema vendor.github-actions "$root/tools/action/action.yml"
validate --builtin-schema vendor.gitlab-ci "$root/tools/action/gitlab.yml"
for document in check:c.json diff:d.json; do
  "$gpuplan" schema "${document%%:*}" >"$work/schema"
  validate --check-metaschema "$work/schema"
  validate --schemafile "$work/schema" "$work/${document#*:}"
done
"$gpuplan" schema budget >"$work/schema" && validate --schemafile "$work/schema" gpuplan.yaml
"$python" - "$work" <<'END' || fail "a format is not as its readers want it"
import sys
from junitparser import JUnitXml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif
folder = sys.argv[1]
assert len(Sarif.model_validate_json(open(folder + "/c.sarif").read()).runs[0].results) > 0
assert JUnitXml.fromfile(folder + "/c.xml").failures > 0
assert "gpuplan_peak_bytes" in {f.name for f in text_string_to_metric_families(open(folder + "/metrics.txt").read())}
END
exit $status
