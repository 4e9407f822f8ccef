#!/usr/bin/env bash
# gpuplan validate with the CUDA module under `gpuplan shadow`: memory is what the plan says, exit codes, memory that runs
# out, Ctrl-C. Without a GPU it says so; on a machine with one it also measures times and compares values.
set -uo pipefail
cd "$(dirname "$0")/../.."
source tests/cuda/module.bash
build_module

shadow() {
  local gpu=$1
  shift
  "$gpuplan" shadow --gpu "$gpu" -q -- "$gpuplan" validate "$@"
}

for model in resnet18 gpt2; do
  expect 0 'peak allocated .* 0 % ' shadow h200 "zoo:$model" --batch 4 --opt adam --tolerance 0
done
expect 0 'whole process \(NVML\)' shadow t4 zoo:resnet18 --batch 4
expect 0 'values and times need a real GPU' shadow t4 zoo:resnet18 --batch 4 --values --by op
expect 0 '"holds": true' shadow t4 zoo:resnet18 --batch 4 --format json
expect 0 'peak allocated' shadow t4 zoo:resnet18 --batch 4 -o "$work/page.html"
grep -q '<p class="good">✔ What was predicted was measured, within 1%</p>' "$work/page.html" || fail "the page says so"
expect 0 '^  forward ' shadow t4 zoo:resnet18 --batch 4 -v

# Memory runs out where the plan says; a smaller batch is named.
expect 1 'out of memory in step 1, forward of [a-z0-9.]+ \(aten::' shadow t4 zoo:resnet50 --batch 512 -o "$work/too_big.json"
grep -qE '^  predicted with the .* free: the same$' "$work/out" || fail "the plan says where"
grep -qE '^    --batch [0-9]+ ' "$work/out" || fail "the largest batch that fits"
grep -q '"same": true' "$work/too_big.json" || fail "the file says so too"

# What cannot be asked for.
expect 2 '--by expects layer, op or class' "$gpuplan" validate zoo:resnet18 --by name
expect 2 'validate can write text, JSON or HTML only' "$gpuplan" validate zoo:resnet18 --format csv
expect 2 'validate can write text, JSON or HTML only' "$gpuplan" validate zoo:resnet18 -o "csv:$work/v"
expect 4 'cannot be written there' "$gpuplan" validate zoo:resnet18 -o "$work/none/v.json"
expect 2 '--steps expects 3 to 1000000' "$gpuplan" validate zoo:resnet18 --steps 2
expect 2 '--tolerance expects a share' "$gpuplan" validate zoo:resnet18 --tolerance nan

# Ctrl-C: the device is closed and nothing is written. A shell's background jobs ignore SIGINT; python's do not.
python3 - "$gpuplan" "$work/interrupted.json" >"$work/out" 2>"$work/err" <<'EOF' || fail "Ctrl-C"
import os, signal, subprocess, sys, time
gpuplan, file = sys.argv[1:]
command = [gpuplan, "shadow", "--gpu", "h200", "-q", "--", gpuplan, "validate", "zoo:resnet18", "--batch", "4",
           "--steps", "1000000", "-o", file]
run = subprocess.Popen(command, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(5)
assert run.poll() is None, "it ended by itself"
os.killpg(run.pid, signal.SIGINT)
assert run.wait(60) == 130, run.returncode
assert not os.path.exists(file)
EOF

if nvidia-smi >/dev/null 2>&1; then
  expect 0 'samples/s' "$gpuplan" validate zoo:resnet18 --batch 16 --values --by class
else
  expect 4 'no GPU to run on' "$gpuplan" validate zoo:resnet18
fi
exit $status
