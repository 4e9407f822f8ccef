#!/usr/bin/env bash
# gpuplan gpus --live with a library in the place of NVIDIA's that answers as odd machines do: a GPU with MIG on, with and
# without a list of its slices, one whose memory is not said (Grace's and Jetson's), one that is lost, one that no table
# has and whose name would colour a terminal. $GPUPLAN is the binary.
set -euo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
compiler=${CC:-$(command -v cc || command -v gcc || command -v clang || true)}
[ -n "$compiler" ] || { echo "no C compiler for a library in NVML's place"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/nvml.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char* names[] = {"Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA GH200 480GB", "", "Quadro \033[31mP600",
                              "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"};
int nvmlInit_v2(void) { return getenv("NO_DRIVER") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = getenv("NO_GPU") ? 0 : 5; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) { *d = (void*)(size_t)(i + 1); return i == 3 ? 15 : 0; }
int nvmlDeviceGetName(void* d, char* name, unsigned n) { strncpy(name, names[(size_t)d - 1], n); return 0; }
int nvmlDeviceGetMemoryInfo(void* d, unsigned long long* m) {
  m[0] = 15ull << 30; m[1] = 14ull << 30; m[2] = 1ull << 30;
  if ((size_t)d == 6) m[0] = 4864ull << 20, m[1] = 4800ull << 20;
  return (size_t)d == 3 || (size_t)d == 7 ? 3 : 0;
}
#ifdef SLICES
int nvmlDeviceGetMaxMigDeviceCount(void* d, unsigned* n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void* d, unsigned i, void** s) {
  *s = (void*)(size_t)(i == 0 ? 6 : 7);
  return i == 0 || i == 4 ? 0 : 6;
}
#endif
int nvmlDeviceGetUUID(void* d, char* id, unsigned n) { snprintf(id, n, "GPU-%zu", (size_t)d); return 0; }
int nvmlDeviceGetMigMode(void* d, unsigned* now, unsigned* next) { *now = *next = (size_t)d == 2; return 0; }
C
"$compiler" -shared -fPIC -o "$work/libnvidia-ml.so.1" "$work/nvml.c"
export LD_LIBRARY_PATH=$work
"$gpuplan" gpus --live >"$work/out"
status=0
while IFS= read -r pattern; do
  grep -qE -- "$pattern" "$work/out" || { echo "FAIL  no '$pattern' in:"; cat "$work/out"; status=1; }
done <<'PATTERNS'
^ *0 +Tesla T4 +15,360 +14,336 +--gpu t4$
^ *1 +NVIDIA A100-SXM4-40GB +15,360 .* your MIG slice
^ *2 +NVIDIA GH200 480GB +- +- +--gpu gh200$
^ *3 +\? +- +- +not known: 
^ *4 +Quadro  \[31mP600 +15,360 +14,336 +not known: 
PATTERNS
"$compiler" -DSLICES -shared -fPIC -o "$work/libnvidia-ml.so.1" "$work/nvml.c"
for format in table json csv; do "$gpuplan" gpus --live --format "$format" >"$work/out.$format"; done
while read -r format pattern; do
  grep -qE -- "$pattern" "$work/out.$format" || { echo "FAIL  no '$pattern' in:"; cat "$work/out.$format"; status=1; }
done <<'PATTERNS'
table ^ *1 +NVIDIA A100-SXM4-40GB +15,360 .* one of its slices$
table ^ *1:0 +NVIDIA A100-SXM4-40GB MIG 1g.5gb +4,864 +4,800 +--gpu "4864 MiB"$
table ^ *1:4 +NVIDIA A100-SXM4-40GB MIG 3g.20gb +- +- +not known: 
csv ^0,,GPU-1,Tesla T4,16106127360,15032385536,false,t4,t4,
csv ^1,,GPU-2,NVIDIA A100-SXM4-40GB,16106127360,15032385536,true,,,
csv ^1,0,GPU-6,NVIDIA A100-SXM4-40GB MIG 1g.5gb,5100273664,5033164800,false,4864 MiB,,
csv ^2,,GPU-3,NVIDIA GH200 480GB,,,false,gh200,gh200,
csv ^3,,,,,,false,,,
json "driver_name": "Quadro  .31mP600"
PATTERNS
for case in NO_DRIVER NO_GPU; do
  code=0
  env "$case=1" "$gpuplan" gpus --live >"$work/out" 2>"$work/err" || code=$?
  if [ "$code" -ne 4 ] || [ -s "$work/out" ]; then
    echo "FAIL  $case: exit $code"
    status=1
  fi
done
exit $status
