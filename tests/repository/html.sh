#!/usr/bin/env bash
# HTML reports: the JSON in a page is that of --format json, its allocations have the plan's peak, for every model of the zoo; and
# in headless Chromium a page draws itself without an error, a request or a number of its own. So do the pages of every
# other command that has one. GPUPLAN is the binary.
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
memory = data["memories"][0]
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
"$gpuplan" zoo:llama3_70b --batch 1 --opt adamw --precision bf16 --checkpoint block --gpu h200 -q -o html:"$work/llama3_70b.html" >"$work/out" 2>&1

# The report of a page is what --format json prints of the same command.
cat >"$work/gpuplan.yaml" <<'END'
gpuplan: 1
checks:
  - {name: holds, model: "zoo:resnet18", batch: 8, opt: adam, budget: {peak: 4 GiB}}
  - {name: breaks, model: "zoo:resnet18", batch: 8, budget: {peak: 100 MiB}}
END
named=(fit sweep diff diff_of_a_run check replay learned stages lengths)
page_of() { # NAME ARGUMENTS...
  local name=$1
  shift
  "$gpuplan" "$@" -o html:"$work/$name.html" --force >"$work/out" 2>"$work/errors"
  [ -s "$work/$name.html" ] || fail "$name has no page: $(tail -n 1 "$work/errors")"
  "$gpuplan" "$@" --format json >"$work/$name.json" 2>"$work/errors"
  python3 - "$work/$name.html" "$work/$name.json" <<'END' || fail "$name: the page has another report"
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
data = json.loads(re.search(r'<script type="application/json" id="gpuplan">(.*?)</script>', page, re.S).group(1))
text = open(sys.argv[2], encoding="utf-8").read()
report = [json.loads(line) for line in text.splitlines()] if '"gpuplan.sweep/1"' in text else json.loads(text)
sys.exit(data["report"] != report)
END
}
page_of fit fit zoo:resnet50 --opt adam --on t4,l4,a100-80gb
page_of sweep sweep zoo:resnet18 --over batch=8,16,32 --over precision=fp32,amp-bf16 --gpu l4
page_of diff diff zoo:resnet18 zoo:resnet34 -b 8 --opt adam
page_of diff_of_a_run diff zoo:resnet18 tests/snapshots/plain-2.15.pickle -b 8 --opt adam
page_of check check --config "$work/gpuplan.yaml"
page_of replay replay tests/snapshots/leak-2.15.pickle --alloc-conf expandable_segments:True
page_of learned plan tests/learned/gpt2.trace --batch 8
page_of stages plan zoo:gpt2 -b 8 --gpus 4 --tp 2 --gpu h100
page_of lengths plan zoo:gpt2 -b 4 --seq-lengths lognormal:mean=300,max=1000 --steps 12
"$gpuplan" snapshot tests/snapshots/leak-2.15.pickle tests/snapshots/oom-2.15.pickle -q -o html:"$work/ranks.html" >"$work/out" 2>&1 || fail 'no page of two snapshots'
if ! command -v chromium >"$work/out"; then
  echo 'no chromium: pages are not opened'
  [ "$status" -eq 0 ] && exit 77
  exit 1
fi
opened() { # PAGE PATTERN
  chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --virtual-time-budget=4000 --dump-dom "file://$1" >"$work/dom" 2>"$work/log"
  ! grep -q 'CONSOLE' "$work/log" || fail "$1: $(grep CONSOLE "$work/log" | head -n 1)"
  tr '\n' ' ' <"$work/dom" | grep -qE "$2" || fail "$1 does not show $2"
}
opened "$work/resnet50.html" 'At the peak: 5.49 GiB allocated, 6.13 GiB reserved, in backward'
opened "$work/resnet50.html" '<tr><td>196 MiB</td><td>3.5 %</td><td>3</td><td>zoo:resnet50:27 layer1.0.bn3 aten::batch_norm</td></tr>'
for name in "${named[@]}" ranks llama3_70b; do opened "$work/$name.html" '<h2>Memory, event by event</h2>|<table class="report">'; done
opened "$work/fit.html" '<td class="words">t4</td>.*<td title="15,828,320,256">14.7 GiB</td>'
opened "$work/sweep.html" 'Samples a second, modelled</text>.*<option value="5">batch 32, precision amp-bf16</option>'
opened "$work/diff_of_a_run.html" '<h2>Peak bytes by phase</h2>'
opened "$work/check.html" '<p class="bad">✖ 2 checks: 1 ok, 1 failed</p>'
opened "$work/replay.html" '<td class="words">peak_reserved</td><td title="402,653,184">384 MiB</td><td title="446,693,376">426 MiB</td>'
opened "$work/resnet50.html" 'Roofline of resnet50</text>'
opened "$work/oom.html" 'At the peak: 9.22 GiB allocated, 9.57 GiB reserved'
exit "$status"
