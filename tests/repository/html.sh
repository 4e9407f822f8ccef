#!/usr/bin/env bash
# HTML reports: the JSON in a page is that of --format json, its allocations have the plan's peak, for every model of the zoo; and
# in headless Chromium a page draws itself without an error, a request or a number of its own. GPUPLAN is the binary.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
fail() {
  echo "FAIL  $1"
  status=1
}
pages=0 models=(configs/models/*.yaml)
for file in "${models[@]}"; do
  name=$(basename "$file" .yaml)
  "$gpuplan" "zoo:$name" -b 2 --opt adam --format json -o html:"$work/page.html" --force >"$work/plan.json" 2>"$work/errors" ||
    { fail "$name: $(tail -n 1 "$work/errors")"; continue; }
  python3 - "$work/page.html" "$work/plan.json" <<'END' && pages=$((pages + 1)) || fail "$name"
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
data = json.loads(re.search(r'<script type="application/json" id="gpuplan">(.*?)</script>', page, re.S).group(1))
plan = json.load(open(sys.argv[2], encoding="utf-8"))
assert data["report"] == plan, "the page has another report"
memory = data["memory"]
now = [0] * memory["events"]
for made, freed, size, *_ in memory["tensors"]:
    now[max(made, 0)] += size
    if freed >= 0:
        now[freed] -= size
for i in range(1, len(now)):
    now[i] += now[i - 1]
assert max(now) == now[memory["peak"]] == plan["peak"]["allocated_bytes"], (max(now), plan["peak"]["allocated_bytes"])
assert not re.search(r'(src|href)=|https?:|url\(', page.split('<script type="application/json"')[0]), "the page names something outside"
END
done
[ "$pages" -eq "${#models[@]}" ] || fail "$pages pages of ${#models[@]} models"
"$gpuplan" zoo:resnet50 -b 64 --opt adam --gpu t4 -q -o html:"$work/resnet50.html" >"$work/out" 2>&1
[ "$(stat -c %s "$work/resnet50.html")" -le 409600 ] || fail "ResNet-50's page has $(stat -c %s "$work/resnet50.html") bytes"
"$gpuplan" snapshot tests/snapshots/oom-2.15.pickle -q -o html:"$work/oom.html" >"$work/out" 2>&1 || fail 'no page of a snapshot'
if ! command -v chromium >"$work/out"; then
  echo 'no chromium: pages are not opened'
  [ "$status" -eq 0 ] && exit 77
  exit 1
fi
opened() { # PAGE PATTERN
  chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --virtual-time-budget=4000 --dump-dom "file://$1" >"$work/dom" 2>"$work/log"
  ! grep -q 'CONSOLE' "$work/log" || fail "$1: $(grep CONSOLE "$work/log" | head -n 1)"
  grep -qE "$2" "$work/dom" || fail "$1 does not show $2"
}
opened "$work/resnet50.html" 'At the peak: 5.49 GiB allocated, 6.13 GiB reserved, in backward'
opened "$work/resnet50.html" '<tr><td>196 MiB</td><td>3.5 %</td><td>3</td><td>zoo:resnet50:27 layer1.0.bn3 aten::batch_norm</td></tr>'
opened "$work/oom.html" 'At the peak: 9.22 GiB allocated, 9.57 GiB reserved'
exit "$status"
