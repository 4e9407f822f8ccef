#!/usr/bin/env bash
# Models in Python that are named on the command line, with a shell script in Python's place: what is asked of it, when it is
# asked again, and what is said where it fails. GPUPLAN names the program. tests/torch/python_models.sh has PyTorch's.
# shellcheck disable=SC2016  # eval expands it
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  if "${@:2}" >"$work/out" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $1"; cat "$work/out"; fi
}

cat >"$work/python" <<'SCRIPT'
#!/usr/bin/env bash
# python -c CODE PACKAGE SPEC WORD ...: as tools/python/gpuplan/door.py, of a model that is always the same.
spec=$4
echo "${*:5}" >>"$FAKE/asked"
[ -z "${FAKE_ERROR:-}" ] || { printf '%b' "$FAKE_ERROR" >&2; exit 1; }
printf 'gpuplan: 1\nname: faked\nverified: "equal to nothing"\nnotes:\n  - "it is a script"\ninput: {shape: [8]}\nlayers:\n  - Linear(8, 8)\n' >"$spec"
for file in "$spec" "$FAKE/net.py"; do
  printf '%s\t%s%s\t%s\n' "$(stat -c %s "$file")" "$(stat -c %Y "$file")" "$(stat -c %y "$file" | sed 's/.*\.\([0-9]*\) .*/\1/')" "$file"
done >"$spec.sources"
SCRIPT
chmod +x "$work/python"
export FAKE=$work GPUPLAN_PYTHON=$work/python XDG_CACHE_HOME=$work/cache HF_HUB_CACHE=$work/hub
echo 'print()' >"$work/net.py"
: >"$work/asked"
asked() { wc -l <"$work/asked"; }
plan() { "$gpuplan" plan "$@" >"$work/plan" 2>"$work/said"; }
says() { grep -qF -- "$1" "$work/said" || { cat "$work/said"; return 1; }; }

exported() {
  plan timm:resnet18 -b 4 && grep -q '^faked ' "$work/plan" && grep -q 'Verified  *equal to nothing' "$work/plan" &&
    says 'warning: it is a script' && [ "$(cat "$work/asked")" = timm:resnet18 ]
}
check "a model of timm is exported, and says how it was verified" exported
check "the second question asks no Python" eval 'plan timm:resnet18 -b 8 && [ "$(asked)" = 1 ]'
check "other inputs are another model" eval 'plan timm:resnet18 --input 3x32x32 --arg a=1 && [ "$(tail -n 1 "$work/asked")" = "timm:resnet18 --input 3x32x32 --arg a=1" ]'
check "code that has changed is exported anew" eval 'n=$(asked); echo "print(1)" >"$work/net.py"; plan timm:resnet18 && [ "$(asked)" = $((n + 1)) ]'
check "a spec that has changed, too" eval 'n=$(asked); for f in "$XDG_CACHE_HOME"/gpuplan/models/*.yaml; do echo "# more" >>"$f"; done; plan timm:resnet18 && [ "$(asked)" = $((n + 1)) ]'
check "another interpreter has models of its own" eval 'n=$(asked); cp "$work/python" "$work/python2"; GPUPLAN_PYTHON=$work/python2 plan timm:resnet18 && [ "$(asked)" = $((n + 1)) ]'
check "a file of the user's" eval '(cd "$work" && "$gpuplan" net.py:Net -q) && [ "$(tail -n 1 "$work/asked")" = net.py:Net ]'
check "import writes the spec" eval '"$gpuplan" import torchvision:resnet18 -o "$work/written.yaml" && grep -q "name: faked" "$work/written.yaml"'
check "import passes inputs" eval '"$gpuplan" import "$work/net.py:Net" --input 8 >/dev/null && [ "$(tail -n 1 "$work/asked")" = "$work/net.py:Net --input 8" ]'

refused() { # EXIT-CODE WORDS FOR THE PLAN...; the last one is what is said
  local code=$1 said=${*: -1}
  plan "${@:2:$#-2}"
  [ $? = "$code" ] && says "$said"
}
check "what Python refuses, with its help" eval 'FAKE_ERROR="error: no layer for f\n  net.py:4: f\n  help: do else\n" refused 3 timm:x "error: no layer for f; net.py:4: f" && says "  help: do else"'
check "a refusal is not remembered" eval 'n=$(asked); plan timm:x && [ "$(asked)" = $((n + 1)) ]'
check "a package that is missing" eval 'FAKE_ERROR="error: timm:y: No module named timm\n" refused 4 timm:y "GPUPLAN_PYTHON=venv/bin/python"'
check "a traceback" eval 'FAKE_ERROR="Traceback\n  File\nKeyError: 7\n" refused 4 timm:y "KeyError: 7"'
check "no interpreter" eval 'GPUPLAN_PYTHON=$work/none refused 4 timm:y "cannot run $work/none"'
printf 'gpuplan: 1\nnotes: text\ninput: {shape: [8]}\nlayers:\n  - Linear(8, 8)\n' >"$work/noted.yaml"
check "notes are a list" eval 'refused 3 "$work/noted.yaml" "notes must be a list of texts" && says "noted.yaml:2:8"'
printf 'extends: base.yaml\nvars: {}\n' >"$work/extends.yaml"
printf 'gpuplan: 1\nverified: "as it was"\ninput: {shape: [8]}\nlayers:\n  - Linear(8, 8)\n' >"$work/base.yaml"
check "what a spec was compared with is not said of one that extends it" eval 'plan "$work/base.yaml" && grep -q "as it was" "$work/plan" && plan "$work/extends.yaml" && ! grep -q "as it was" "$work/plan"'
check "--learn is for Python's models" refused 2 zoo:mlp --learn "--learn is for a model in Python, not for zoo:mlp"
check "an agent, who may write nothing, runs no file's code" eval 'n=$(asked); GPUPLAN_WRITE_ONLY=$work refused 3 "$work/net.py:Net" "runs the code of" && GPUPLAN_WRITE_ONLY=$work refused 3 "$work/net.py:Net" --learn "runs the code of" && [ "$(asked)" = "$n" ]'
check "--input is for Python's models" refused 2 zoo:mlp --input 3 "--input is for a model in Python"
check "a home is needed to remember" eval 'XDG_CACHE_HOME= HOME= refused 4 timm:resnet18 "neither XDG_CACHE_HOME nor HOME is set"'

# Hugging Face's: one whose config.json is here needs no Python where gpuplan reads its family.
mkdir -p "$work/hub/models--openai--gpt2/refs" "$work/hub/models--openai--gpt2/snapshots/abc" "$work/unknown"
printf abc >"$work/hub/models--openai--gpt2/refs/main"
echo '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2}' >"$work/hub/models--openai--gpt2/snapshots/abc/config.json"
echo '{"model_type": "biogpt", "architectures": ["BioGptForCausalLM"]}' >"$work/unknown/config.json"
check "a downloaded config.json" eval 'n=$(asked); plan hf:openai/gpt2 --seq 64 && [ "$(asked)" = "$n" ] && grep -q "2 × 64\|1 × 64" "$work/plan"'
check "a family that gpuplan does not know is transformers'" eval 'n=$(asked); plan "hf:$work/unknown" && [ "$(asked)" = $((n + 1)) ]'

# A budget: packages are installed, but files are the pull request's.
mkdir "$work/repository"
cp "$work/net.py" "$work/repository/"
(
  cd "$work/repository" && git init -q . && printf 'gpuplan: 1\nchecks:\n  - {name: own, model: "net.py:Net", input: "8", budget: {peak: 1GiB}}\n  - {name: other, model: "timm:resnet18", budget: {peak: 1GiB}}\n' >gpuplan.yaml
)
in_repository() { (cd "$work/repository" && "$gpuplan" check "$@" >"$work/plan" 2>"$work/said"); }
check "check runs no file's code" eval '! in_repository own && grep -q "net.py:Net runs the code of net.py" "$work/plan" "$work/said" && grep -q -- "--trust-code" "$work/plan" "$work/said"'
check "--trust-code runs it" eval 'in_repository own --trust-code && [ "$(tail -n 1 "$work/asked")" = "net.py:Net --input 8" ]'
check "a package's needs none" in_repository other
check "nor is one outside the repository run" eval 'sed -i "s#net.py:Net#../net.py:Net#" "$work/repository/gpuplan.yaml"; ! in_repository own --trust-code && grep -q outside "$work/plan" "$work/said"'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
