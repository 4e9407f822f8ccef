#!/usr/bin/env bash
# Who may include what. Each rule is a set of files, a pattern that no line of them may match, and the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0

# forbid PATTERN REASON FILES...: git pathspecs; ':!path' takes one out.
forbid() {
  local pattern=$1 reason=$2
  shift 2
  if git grep -nE "$pattern" -- "$@"; then
    echo "  ^ $reason"
    status=1
  fi
}
include() { printf '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](%s)' "$1"; }

cuda='cuda|cublas|cudnn[._]|nvml|curand'

forbid "$(include "layers/|validate/|tools/|tests/|configs/|CLI/|fmt/|$cuda")" \
  "estimator/ knows the standard library only" 'estimator/*.h' 'estimator/*.cpp'
forbid "$(include 'nlohmann/')" "only the writers of report/ know JSON" \
  'estimator/*' 'layers/*' ':!estimator/report/*.cpp' ':!estimator/report/json_parts.h' \
  ':!*CMakeLists.txt'
forbid "$(include 'estimator/report/json_parts')" "only the writers of JSON know it" \
  '*.h' '*.cpp' ':!estimator/report/*.cpp' ':!estimator/report/*_json.h' ':!validate/*_json.cpp' ':!validate/*_schema.cpp'
forbid "$(include 'zlib')" "only the trace reader unpacks files" \
  'estimator/*' 'layers/*' ':!estimator/allocator/trace.cpp' ':!*CMakeLists.txt'
forbid "$(include 'iostream|print>')|std::(cout|cerr|clog)|[^a-z_]f?printf\(|[^a-z_]f?puts\(" \
  "only tools/ prints" 'estimator/*' 'layers/*' ':!*CMakeLists.txt'
forbid '(^|[^a-zA-Z_.])(std::)?(quick_|_)?(exit|abort|terminate)\(|[^a-z_]getenv\(' \
  "only tools/ ends the process or reads the environment" 'estimator/*' 'layers/*' ':!*CMakeLists.txt'
forbid "$(include 'yaml-cpp')" \
  "only the readers of model and GPU files know YAML" \
  'estimator/*' 'layers/*' 'validate/*' ':!estimator/spec/*.cpp' ':!estimator/spec/yaml*.h' \
  ':!estimator/device/*.cpp'
forbid "$(include 'estimator/spec/(read|parse|expand|yaml)')" \
  "layers/ see the vocabulary only, not how a spec is read" 'layers/*'
forbid "$(include "layers/|validate/|tools/|tests/|configs/|CLI/|yaml|$cuda")" \
  "a layer knows no other layer, no data and no device" 'layers/*.cpp'
forbid "$(include "layers/|tools/|tests/|yaml|CLI/")" "validate/ sees the plan and the device only" 'validate/*'
forbid "$(include "$cuda")" "only validate/cuda*, validate/shadow/ and the emulation know CUDA" \
  '*.h' '*.cpp' ':!validate/cuda*' ':!validate/shadow/*' ':!tests/cuda/emulation/*'
forbid "$(include 'CLI/')" "only tools/ knows the command line" '*.h' '*.cpp' ':!tools/*' ':!tests/*'
forbid "$(include 'tests/|doctest')" "nothing depends on tests/" '*.h' '*.cpp' ':!tests/*'
forbid '#[[:space:]]*include[[:space:]]*"\.\.?/' "includes are written from the root" '*.h' '*.cpp' '*.cu'

# The ladder: an #include goes to its own folder or to one above it in ladder.txt, so there is no cycle. What is
# generated has no folder.
ladder=tests/repository/ladder.txt
if ! git grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[a-z_]+/' -- '*.h' '*.cpp' '*.cu' '*.cuh' ':!tests/*' | awk '
  FNR == NR { if ($0 !~ /^#/) { rung++; for (i = 1; i <= NF; i++) at[$i] = rung } next }
  function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
  {
    split($0, place, ":"); split($0, quoted, "\"")
    from = folder(place[1]); to = folder(quoted[2])
    if (to == from || to == "onnx_schema") next
    if (!(from in at)) { problem = from " is not in the ladder" }
    else if (!(to in at)) { problem = to " is not in the ladder" }
    else if (at[to] >= at[from]) { problem = from " does not see " to }
    else next
    print place[1] ":" place[2] ": " quoted[2] ": " problem; bad = 1
  }
  END { exit bad }' "$ladder" -; then
  echo "  ^ $ladder has the order of the folders"
  status=1
fi
while read -r folder; do
  [ -d "$folder" ] || { echo "$ladder: there is no folder $folder"; status=1; }
done < <(grep -v '^#' "$ladder" | tr ' ' '\n')

# Files lie in folders that say what they are for.
if git ls-files | grep -E '^(estimator|tests)/[^/]*\.(h|cpp)$'; then
  echo "  ^ estimator/ and tests/ have folders only"
  status=1
fi

exit $status
