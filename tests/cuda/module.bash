# For the scripts of tests/repository that need libgpuplan_cuda.so: sourced from the repository's root. Builds it with
# what `build_module TARGET...` names besides; ends the script with 77 and the reason where that cannot be.
# Afterwards: $gpuplan, $work (a folder of this run), $status, which fail() sets, and expect().
build_module() {
  local nvcc toolkit
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "no nvcc, which the module is compiled with"; exit 77; }
  toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
  ls "$toolkit"/include/{cublasLt,cudnn}.h >/dev/null 2>&1 || { echo "no cuBLASLt or cuDNN"; exit 77; }
  command -v python3 >/dev/null || { echo "no python3, which reads JSON and interrupts runs"; exit 77; }
  tools/build release gpuplan gpuplan_shadow_libraries gpuplan_cuda "$@" || exit 1
  export LD_LIBRARY_PATH=$toolkit/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  gpuplan=$PWD/build/gpuplan
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  status=0
}

# What the command printed comes with it.
fail() {
  echo "FAIL  $1"
  cat "$work/out" "$work/err"
  status=1
}

# expect CODE PATTERN COMMAND...: the pattern is in what the command prints.
expect() {
  local code=$1 pattern=$2 actual=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null || actual=$?
  [ "$actual" -eq "$code" ] || fail "$*: exit $actual, not $code"
  grep -qE -- "$pattern" "$work/out" "$work/err" || fail "$*: no '$pattern'"
}
