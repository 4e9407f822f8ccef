# Of scripts that name models in Python on gpuplan's command line, and want plans that equal the models' own steps:
#   source tests/torch/verified.bash
#   verified_with 215        # which of python.bash's interpreters
#   equal FILE.py:MODEL "--input 3x24x24 --arg kind=nf4" FLAGS...    in training and inference; with FLAGS in training alone
#   verified                 # the last line
# GPUPLAN names the program.
source tests/torch/python.bash
passed=0 failed=0

verified_with() { # NAME
  python_with "$1" || { echo "PyTorch ($1): $reason"; exit 77; }
  GPUPLAN=$(realpath "${GPUPLAN:-build/gpuplan}")
  GPUPLAN_PYTHON=$(realpath -s "$python")
  work=$(realpath "$(mktemp -d)")
  trap 'rm -rf "$work"' EXIT
  export GPUPLAN GPUPLAN_PYTHON XDG_CACHE_HOME=$work/cache HF_HUB_OFFLINE=1
}

equal() { # MODEL WORDS FLAGS...
  local words modes='train and eval'
  [ $# -gt 2 ] && modes=train
  read -ra words <<<"$2"
  "$GPUPLAN" "$1" "${words[@]}" --batch 5 --no-learn "${@:3}" >"$work/out" 2>&1
  if grep -q "^  Verified  *equal to PyTorch 2.15 .*, $modes" "$work/out" && ! grep -q '^warning: not equal' "$work/out"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL  $*"
    tail -n 12 "$work/out"
  fi
}

verified() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
