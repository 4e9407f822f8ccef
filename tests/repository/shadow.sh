#!/usr/bin/env bash
# gpuplan shadow as a user meets it, without PyTorch: exit codes, streams, signals, what is left behind, and a program
# that calls the CUDA runtime (through Python's ctypes). $GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
[ -e "$(dirname "$gpuplan")/shadow/libgpuplan_shadow.so" ] || { echo "no runtime beside $gpuplan: build it first"; exit 77; }
command -v python3 >/dev/null || { echo "no python3, which stands for a program that uses CUDA"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp LANG=C.UTF-8
mkdir "$TMPDIR"
unset NO_COLOR CLICOLOR_FORCE LC_ALL LC_CTYPE CUDA_VISIBLE_DEVICES LD_PRELOAD
status=0

fail() {
  echo "FAIL  $1"
  status=1
}

# expect CODE PATTERN ARGUMENTS...: the exit code of gpuplan shadow ARGUMENTS, and a pattern that standard error has ('':
# whatever it has).
# Afterwards no session is left.
expect() {
  local code=$1 pattern=$2 actual
  shift 2
  timeout 60 "$gpuplan" shadow "$@" >"$work/out" 2>"$work/err" </dev/null
  actual=$?
  [ "$actual" -eq "$code" ] || fail "gpuplan shadow $*: exit $actual, not $code: $(head -n 3 "$work/err")"
  [ -z "$pattern" ] || grep -qE -- "$pattern" "$work/err" || fail "gpuplan shadow $*: no '$pattern' in $(head -n 5 "$work/err")"
  [ -z "$(ls "$TMPDIR" 2>/dev/null)" ] || fail "gpuplan shadow $*: left $(ls "$TMPDIR")"
}

printed() { [ "$(cat "$work/out")" = "$1" ] || fail "$2: standard output is '$(cat "$work/out")'"; }

cat >"$work/cuda.py" <<'PYTHON'
# cuda.py BYTES...: asks for that much device memory each, in one go; exits 7 where it is refused.
import ctypes, sys
cuda = ctypes.CDLL(None)
for size in sys.argv[1:]:
    if cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(int(size))):
        sys.exit(7)
PYTHON
gib=1073741824

# The command's own words, streams and exit code.
expect 0 'used no GPU memory' --gpu t4 -- sh -c 'echo out; echo err >&2'
printed out "a shell"
grep -qx err "$work/err" || fail "standard error of the command is lost"
expect 3 'ended with exit code 3' --gpu t4 -- sh -c 'exit 3'
expect 137 'SIGKILL.*memory is full' --gpu t4 -- sh -c 'kill -9 $$'
expect 139 'SIGSEGV' --gpu t4 -- sh -c 'kill -SEGV $$'
expect 0 '' --gpu t4 -- printf '%s|' --help -h -- '' 'a  b' '--gpu'
printed "--help|-h|--||a  b|--gpu|" "arguments behind --"
expect 0 'no --gpu: NVIDIA A100-SXM4-80GB is assumed' -- true
expect 0 'more than NVIDIA T4 has' --gpu t4 --capacity '99 GiB' -- true
echo in | "$gpuplan" shadow --gpu t4 -q -- cat 2>/dev/null | grep -x in >/dev/null || fail "standard input does not reach the command"
LD_PRELOAD= PYTHONPATH=$work expect 0 '' --gpu t4 -- sh -c 'echo "$PYTHONPATH"'
grep -q ":$work$" "$work/out" || fail "PYTHONPATH is replaced: $(cat "$work/out")"
for launcher in "env PYTHONPATH=$work" 'env -u PYTHONPATH'; do
  expect 0 '' --gpu t4 -- $launcher python3 -c 'import sys; print("gpuplan_shadow_hook" in sys.modules)'
  printed True "$launcher"
done

# What cannot be run: 126 and 127, as a shell says it.
expect 127 'no such command: pythno3 — did you mean "python3' -- pythno3 x.py
expect 127 'no such command: ./absent$' -- ./absent
expect 126 'cannot be executed' -- ./README.md
expect 126 'cannot be executed' -- /

# The command line: 2.
expect 2 'no command to run' --gpu t4
expect 2 'help: for example: gpuplan shadow --gpu h100 -- python train.py' --gpu t4 --
expect 2 'must come after --, but "python"' --gpu t4 python train.py
expect 2 'unknown flag --epochs' --gpu t4 python --epochs 3
expect 2 'did you mean "--until-stable"' --until-stabel -- true
expect 2 'unknown GPU "h20".*did you mean "h200"' --gpu h20 -- true
expect 2 'whole number from 1 to 64' --gpus 0 -- true
expect 2 'whole number from 1' --world 0 -- true
expect 2 '--rank expects a whole number from 0 to 7' --world 8 --rank 8 -- true
expect 2 '--rank needs --world' --rank 1 -- true
expect 2 'give only one of them' --gpus 2 --world 8 -- true
expect 2 '--steps and --until-stable' --steps 3 --until-stable -- true
expect 2 'whole number' --steps 0 -- true
expect 2 '--capacity expects a size above 0' --capacity 0 -- true
expect 2 '--capacity expects a size above 0' --capacity '0 GiB' -- true
expect 2 '--max-peak expects a size' --max-peak 20 -- true
expect 2 '--scratch expects full or no-cudnn' --scratch none -- true
expect 2 '--events expects prompt or late' --events lag -- true
expect 2 'unknown file extension' -o report.pdf -- true
expect 4 'cannot be written there' --snapshot "$work/no/such/folder.pickle" -- true
expect 4 'cannot be written there' --launches "$work" -- true
expect 4 'cannot be written there' -o "$work/no/such/report.json" -- echo ran
expect 4 'cannot be written there' -o "json:$work" -- echo ran
printed '' "a command whose report has no place"
expect 4 'used no GPU memory' -o "json:/dev/full" -- true # the report comes first
TMPDIR=$work/absent expect 4 'cannot run it' --gpu t4 -- true

# A program that uses CUDA.
expect 0 'Needs .*GiB .* fits NVIDIA T4' --gpu t4 -- python3 "$work/cuda.py" $gib $gib
expect 0 '^  Peak +2.00 GiB  of device memory . 2 allocations' --gpu t4 -- python3 "$work/cuda.py" $gib $gib
expect 7 'out of memory on NVIDIA T4: requested 20.0 GiB' --gpu t4 -- python3 "$work/cuda.py" $((20 * gib))
expect 0 '^  Peak +20.0 GiB' --gpu h200 -- python3 "$work/cuda.py" $((20 * gib))
expect 7 'out of memory' --gpu h200 --capacity '20 GiB' -- python3 "$work/cuda.py" $((20 * gib))
expect 0 '^  Peak +20.0 GiB' --gpu h200 --capacity '20 GiB' --runtime '0 B' -- python3 "$work/cuda.py" $((20 * gib))
expect 7 'out of memory' --gpu '1 GiB' -- python3 "$work/cuda.py" $gib
expect 0 'over --max-peak|Needs' --gpu t4 --max-peak '1 GiB' -- python3 "$work/cuda.py" $gib
expect 1 'over --max-peak 1023 MiB' --gpu t4 --max-peak '1023 MiB' -- python3 "$work/cuda.py" $gib
expect 0 '^  Peak +20.0 GiB' --gpu h200 --capacity '20 GiB' --runtime 0 -- python3 "$work/cuda.py" $((20 * gib))
expect 0 'not on +[a-z0-9-]+, [a-z0-9-]+,' --gpu h200 -- python3 "$work/cuda.py" $((20 * gib))

# The nvidia-smi of the run's PATH.
smi() { # EXPECTED ARGUMENTS...
  local expected=$1
  shift
  expect 0 '' --gpu a100-40gb --gpus 2 -- nvidia-smi "$@"
  printed "$expected" "nvidia-smi $*"
}
smi '0, NVIDIA A100-SXM4-40GB, 40960, 40441, 0
1, NVIDIA A100-SXM4-40GB, 40960, 40441, 0' --query-gpu=index,name,memory.total,memory.free,utilization.gpu --format=csv,noheader,nounits
smi 'memory.used [MiB], temperature.gpu
519 MiB, [N/A]' -i 1 --query-gpu=memory.used,temperature.gpu --format=csv
smi 'pid, used_memory' --query-compute-apps=pid,used_memory --format=csv
smi 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000000)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000001)' -L
expect 0 '' --gpu t4 -- nvidia-smi
grep -q 'Driver Version: [0-9.]* ' "$work/out" && grep -q 'Tesla T4' "$work/out" || fail "nvidia-smi: $(cat "$work/out")"
expect 2 '' --gpu t4 -- nvidia-smi --query-gpu=nmae --format=csv
grep -q 'Field "nmae" is not a valid field to query' "$work/out" || fail "nvidia-smi: $(cat "$work/out")"
expect 6 '' --gpu t4 -- nvidia-smi -i 3 -L
# A program sees what it holds itself: 2 GiB and its context.
cat >"$work/watched.py" <<'PYTHON'
import ctypes, subprocess
cuda = ctypes.CDLL(None)
cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(2 << 30))
query = "nvidia-smi --query-compute-apps=pid,used_gpu_memory --format=csv,noheader,nounits"
pid, used = subprocess.check_output(query.split(), text=True).split(", ")
import os
print(int(pid) == os.getpid(), int(used))
PYTHON
expect 0 '' --gpu t4 -- python3 "$work/watched.py"
printed 'True 2560' "a program that asks nvidia-smi"

# Hooks in front of functions from C (runtime/python_hooks.cpp), with Python's own for torch's.
cat >"$work/hooks.py" <<'PYTHON'
import collections, os, sys
sys.path.insert(0, os.environ["PYTHONPATH"].split(":")[0])
from gpuplan_shadow_runtime import Hooks
from gpuplan_shadow_values import ALWAYS, ENTRIES, IF_KNOWN, MAPPING, NONE
seen = []
def call(function, name, args, kwargs):
    seen.append((name, args, kwargs))
    return function(*args, **(kwargs or {}))
def begins_unknown(name, args):
    seen.append(("unknown?", args))
    return "unknown" in args[0]
class Rows(dict):
    pass
class Others(collections.OrderedDict):
    pass
hooks = Hooks()
at = ENTRIES["method_descriptor"]
done = [hooks.hook(*one, True, interest) for *one, interest in (
    (str.format, at, "format", ALWAYS), (str.format, at, "format", ALWAYS), (dict.setdefault, at, "another", ALWAYS),
    (str.isupper, at, "isupper", ALWAYS), (dict.update, at, "update", IF_KNOWN), (str.islower, at, "islower", NONE))]
rows = Rows(x=5)
done += [hooks.hook_subscripts(kind, MAPPING, dict.__getitem__, dict.__setitem__) for kind in (Rows, Rows, Others)]
print(done, "{}".format(0), seen)
print(hooks.look((call, begins_unknown, None, None, None), {}, str), "{}{a}".format(1, a=2), "X".isupper(), "x".islower(), seen)
del seen[:]
rows["y"] = rows["x"]
print(seen)
del rows["x"], seen[:]
one, two = {"unknown": 1}, {"known": 1}
one.update(a=1), two.update(b=2)
print(one, two, len(seen), seen[0], seen[2][0])
with hooks:
    print("{}".format(3), len(seen))
try:
    "{}".format()
except IndexError as error:
    print(error, seen[-1][0], "{}".format(4), seen[-1][1])
PYTHON
expect 0 '' --gpu t4 -- python3 "$work/hooks.py"
printed "[1, 0, 0, 1, 1, 1, 1, 0, 0] 0 []
1 12 True True [('format', ('{}{a}', 1), {'a': 2}), ('isupper', ('X',), None)]
[('__getitem__', ({'x': 5, 'y': 5}, 'x'), None), ('__setitem__', ({'x': 5, 'y': 5}, 'y', 5), None)]
{'unknown': 1, 'a': 1} {'known': 1, 'b': 2} 3 ('unknown?', ({'unknown': 1, 'a': 1},)) update
3 3
Replacement index 0 out of range for positional args tuple format 4 ('{}', 4)" "hooks"

# A function of a real CUDA library that a program looks up by the library's handle is ours.
if command -v cc >/dev/null; then
  printf 'int ncclGroupStart(void) { return 7; }\nint ncclOther(void) { return 5; }\n' >"$work/nccl.c"
  cc -shared -fPIC -o "$work/libnccl.so.2" "$work/nccl.c"
  cat >"$work/lookup.py" <<'PYTHON'
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
print(nccl.ncclGroupStart(), nccl.ncclOther())
PYTHON
  expect 0 '' --gpu t4 -- python3 "$work/lookup.py" "$work/libnccl.so.2"
  printed "0 5" "a look-up by handle"
fi

# Processes one after another share one GPU, however they leave; those at a time each have a context.
cat >"$work/children.py" <<'PYTHON'
# children.py HOW: three children hold 2 GiB each.
import ctypes, os, signal, sys
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(2 << 30)):
            os._exit(7)
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "together":
            signal.pause()
        os._exit(0)
    children.append(child)
    if sys.argv[1] == "ended":
        os.waitpid(child, 0)
    elif sys.argv[1] == "killed":
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # nobody asks for it yet
if sys.argv[1] == "together":
    import time
    time.sleep(2)
    for child in children:
        os.kill(child, signal.SIGKILL)
PYTHON
for how in ended killed; do
  expect 0 '^  Peak +2.00 GiB' --gpu t4 --capacity '4 GiB' -- python3 "$work/children.py" $how
  grep -qE '^  \+ runtime +512 MiB +CUDA context and libraries, assumed' "$work/err" || fail "$how: a context: $(grep runtime "$work/err")"
done
expect 0 '^  Peak +6.00 GiB' --gpu t4 -- python3 "$work/children.py" together
grep -qE '^  \+ runtime +1.50 GiB .* of 3 processes' "$work/err" || fail "three contexts: $(grep runtime "$work/err")"

# Machine formats: on standard output, behind the command's, and in files.
expect 0 '' --gpu t4 --format json -o "$work/r.json" -o "csv:$work/r" -- python3 "$work/cuda.py" $gib
cmp -s "$work/out" "$work/r.json" || fail "-o and --format json differ"
python3 - "$work/r.json" $gib <<'PYTHON' || fail "the JSON"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == "gpuplan.shadow/1" and r["gpu"] == "t4" and r["exit_code"] == 0, r
assert r["out_of_memory"] is None and r["peak"]["device_bytes"] == int(sys.argv[2]) + (512 << 20), r["peak"]
PYTHON
grep -q "^rank,device,step," "$work/r" || fail "csv:FILE is not CSV"

# Signals reach the command, whose answer counts; nothing outlives it.
cat >"$work/waits" <<'SHELL'
trap 'echo got it; exit 9' TERM
sleep 1000 &
setsid sleep 1001 &
echo $! >"$1"
while :; do sleep 0.1; done
SHELL
"$gpuplan" shadow --gpu t4 -- sh "$work/waits" "$work/pid" >"$work/out" 2>"$work/err" </dev/null &
for _ in $(seq 100); do [ -s "$work/pid" ] && break || sleep 0.1; done
kill -TERM $!
wait $!
code=$?
[ $code -eq 9 ] || fail "a signal: exit $code, not 9"
printed "got it" "a signal"
kill -0 "$(cat "$work/pid")" 2>/dev/null && fail "a process is left behind"
[ -z "$(ls "$TMPDIR")" ] || fail "a signal: a session is left behind"

# A killed gpuplan takes the command with it, what that started, and the session.
rm -f "$work/pid"
"$gpuplan" shadow --gpu t4 -- sh -c "setsid sleep 1003 & echo \$! \$\$ >$work/pid; exec sleep 1002" >/dev/null 2>&1 </dev/null &
for _ in $(seq 100); do [ -s "$work/pid" ] && break || sleep 0.1; done
{ kill -KILL $! && wait $!; } 2>/dev/null
for pid in $(cat "$work/pid"); do
  for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null && sleep 0.1 || break; done
  kill -0 "$pid" 2>/dev/null && fail "process $pid outlives a killed gpuplan: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
done
for _ in $(seq 50); do [ -n "$(ls "$TMPDIR")" ] && sleep 0.1 || break; done
[ -z "$(ls "$TMPDIR")" ] || fail "the session of a killed gpuplan is left behind"
exit $status
