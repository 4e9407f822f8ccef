#!/usr/bin/env bash
# A CUDA program of our own under `gpuplan shadow`: it runs to its end, and every launch is recorded with its configuration,
# stream and arguments. Where there is a GPU the same program runs on it too.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "no nvcc, which the program is compiled with"; exit 77; }
toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
for header in cublasLt.h cudnn.h; do
  [ -f "$toolkit/include/$header" ] || { echo "no $header in $toolkit/include"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$toolkit/lib64
[ -e "$libraries/libcublasLt.so" ] || libraries=$toolkit/lib
"$nvcc" -std=c++17 -cudart shared -arch=sm_90 tests/cuda/shadow_program.cu -o "$work/program" -L"$libraries" -lcublasLt -lcudnn \
  -Xlinker -rpath,"$libraries" >"$work/nvcc" 2>&1 || { cat "$work/nvcc"; exit 1; }

status=0
fail() {
  echo "FAIL  $1"
  status=1
}
"$gpuplan" shadow --gpu h100 --launches "$work/launches.tsv" -o "$work/report.json" -- "$work/program" >"$work/out" 2>"$work/err" ||
  { fail "the program under the shadow GPU"; cat "$work/out" "$work/err"; }
[ "$(grep -c '^ok ' "$work/out")" -eq 21 ] || fail "21 checks of the program hold, not $(grep -c '^ok ' "$work/out")"

# Columns: process, stream, whether it ran, name, configuration. 0x186a0 is 100,000; the struct holds 2.0 and 0.5.
expect() {
  grep -qE "$1" "$work/launches.tsv" || { fail "no launch like $1"; cat "$work/launches.tsv"; }
}
expect $'transform.*\tgrid 391,1,1 block 256,1,1 shared 0 arguments \*[0-9a-f]{16} \*[0-9a-f]{16} 000186a0 3f00000040000000$'
expect $'transform.*\tgrid 1,2,3 block 32,4,1 shared 512 arguments \*[0-9a-f]{16} \*[0-9a-f]{16} 00000007 000000003f800000$'
expect $'\tcublasLtMatmul\t'
expect $'\tcudnnPoolingForward\t'
[ "$(grep -c transform "$work/launches.tsv")" -eq 2 ] || fail "two kernels ran"
streams=$(awk -F'\t' '/transform/ { print $2 }' "$work/launches.tsv" | sort -u | wc -l)
[ "$streams" -eq 2 ] || fail "on two streams, not $streams"
# 64 MiB, and the 32 MiB that cudaMallocAsync's pool is assumed to take.
grep -qE '"device_bytes": ?'$(((64 + 32 + 512) << 20)) "$work/report.json" || fail "96 MiB and a context of 512 MiB"

# The CUDA runtime linked in, as nvcc does by default: its functions are replaced by their names, before and after the
# constructors that register kernels; without the names the program is refused.
"$nvcc" -std=c++17 -arch=sm_90 tests/cuda/shadow_program.cu -o "$work/linked" -L"$libraries" -lcublasLt -lcudnn \
  -Xlinker -rpath,"$libraries" >"$work/nvcc" 2>&1 || { cat "$work/nvcc"; exit 1; }
cp "$work/launches.tsv" "$work/shared.tsv"
"$gpuplan" shadow --gpu h100 --launches "$work/launches.tsv" -- "$work/linked" >"$work/out" 2>"$work/err" ||
  { fail "the program with the runtime linked in"; cat "$work/out" "$work/err"; }
[ "$(grep -c '^ok ' "$work/out")" -eq 21 ] || { fail "21 checks hold with the runtime linked in"; cat "$work/out"; }
# What stays the same: stream, name, grid, block, shared memory; not addresses.
same() { cut -f2- "$1" | sed -E 's/\*[0-9a-f]{16}|0x[0-9a-f]{6,}/*/g' | sort; }
diff <(same "$work/shared.tsv") <(same "$work/launches.tsv") || fail "the launches are those of the other program"
strip "$work/linked"
"$gpuplan" shadow -- "$work/linked" >"$work/out" 2>"$work/err"
code=$?
[ "$code" -eq 4 ] || fail "stripped, with the runtime linked in: exit $code, not 4"
grep -q 'cudart shared' "$work/err" || { fail "and how to build it"; cat "$work/err"; }

printf '%s\n' '__global__ void scale(float* x) { x[threadIdx.x] *= 2; }' \
  'extern "C" int run() { float* x = nullptr; if (cudaMalloc(&x, 3 << 20) != 0) return 1;' \
  '  scale<<<7, 64>>>(x); return cudaDeviceSynchronize(); }' >"$work/plugin.cu"
printf '%s\n' '#include <dlfcn.h>' 'int main(int, char** words) { int status = 0; for (int i = 0; i < 2; ++i) {' \
  '  void* plugin = dlopen(words[1], RTLD_NOW); status |= ((int (*)())dlsym(plugin, "run"))(); dlclose(plugin); }' \
  '  return status; }' >"$work/host.cpp"
"$nvcc" -arch=sm_90 -shared -Xcompiler -fPIC "$work/plugin.cu" -o "$work/plugin.so" && ${CXX:-c++} "$work/host.cpp" -o "$work/host" -ldl ||
  fail "the plugin is compiled"
"$gpuplan" shadow --gpu h100 --launches "$work/launches.tsv" -- "$work/host" "$work/plugin.so" >"$work/out" 2>"$work/err" ||
  { fail "a plugin with the runtime linked in"; cat "$work/out" "$work/err"; }
expect $'scale.*\tgrid 7,1,1 block 64,1,1 shared 0'
[ "$(grep -c scale "$work/launches.tsv")" -eq 2 ] || fail "once for each time that it is loaded"
# Twice 3 MiB, which the driver hands out in 2 MiB.
grep -qE '^  Peak +8\.00 MiB' "$work/err" || { fail "and what it allocates"; cat "$work/err"; }

if nvidia-smi >/dev/null 2>&1; then
  "$work/program" >"$work/out" || { fail "the program on this machine's GPU"; cat "$work/out"; }
fi
exit $status
