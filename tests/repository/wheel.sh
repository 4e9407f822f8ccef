#!/usr/bin/env bash
# The wheel, built from this checkout and installed into an empty environment with no compiler on its PATH: plans, checks,
# sweeps and the simulated GPU work from there, and so does the package.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools" && "$work/tools/bin/pip" install --quiet build 2>"$work/err" ||
  { echo "no venv or pip: $(tail -n 1 "$work/err")"; exit 77; }
# With the objects that tools/build has made, while nobody else builds there.
if ! flock build/.lock "$work/tools/bin/pip" wheel --quiet --no-deps -C build-dir=build -w "$work" . >"$work/out" 2>&1; then
  grep -qE 'No matching distribution|Could not find a version|Temporary failure' "$work/out" &&
    { echo "pip cannot install what builds the wheel: $(tail -n 1 "$work/out")"; exit 77; }
  cat "$work/out"
  exit 1
fi
status=0
fail() {
  echo "FAIL  $1"
  status=1
}
wheel=$(ls "$work"/gpuplan-*.whl)
[[ $wheel =~ -py3-none-manylinux_2_[0-9]+_ ]] || fail "$wheel is for every Python 3, and names its glibc"
[ "$(stat -c %s "$wheel")" -le $((14 << 20)) ] || fail "$(stat -c %s "$wheel") bytes are more than 14 MiB"
python3 -m venv "$work/venv"
started=$(date +%s%N)
"$work/venv/bin/pip" install --quiet --no-index "$wheel" || fail "it is installed"
run() { env -i PATH="$work/venv/bin" HOME="$work" "$@"; }
cd "$work"
run gpuplan zoo:resnet50 --batch 8 --gpu l4 >answer 2>&1 && grep -q '✔ fits' answer || fail "the first answer: $(cat answer)"
echo "from pip install to the first answer: $((($(date +%s%N) - started) / 1000000)) ms"
[ "$(run python -m gpuplan version)" = "$(run gpuplan version)" ] || fail "python -m gpuplan"
run python -c 'import gpuplan; assert gpuplan.estimate("zoo:resnet50", batch=8, gpu="l4").fits' || fail "the package"
[ -s venv/share/man/man1/gpuplan.1 ] && [ -s venv/share/bash-completion/completions/gpuplan ] || fail "the manual and the completions"
run gpuplan version -v | grep -qF "$work/venv/bin/gpuplan (this one)" || fail "version -v: $(run gpuplan version -v)"
printf 'gpuplan: 1\nchecks: [{model: "zoo:mlp", batch: 8, budget: {peak: 1 GiB}}]\n' >gpuplan.yaml
run gpuplan check >answer 2>&1 || fail "check: $(cat answer)"
run gpuplan shadow --gpu l4 -- python -c '
import ctypes
cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
cuda.cuInit(0)
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(20 << 20)) == 0' >answer 2>&1 && grep -q 'Peak *20.0 MiB' answer ||
  fail "shadow: $(cat answer)"
! ldd "$(run python -c 'import gpuplan.program; print(gpuplan.program.program())')" | grep -vE 'linux-vdso|libc\.|libm\.|libgcc_s\.|ld-linux' ||
  fail "it needs more than glibc and libgcc_s"
GPUPLAN='' run python "$root/tests/python_package/test_package.py" >answer 2>&1 || fail "the package's tests: $(cat answer)"
exit $status
