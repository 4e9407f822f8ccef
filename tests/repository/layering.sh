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
  'estimator/*' 'layers/*' ':!estimator/report/*.cpp' ':!estimator/report/schema_parts.h' \
  ':!estimator/report/gpu_json.h' ':!*CMakeLists.txt'
forbid "$(include 'estimator/report/schema_parts')" "only the writers of report/ know JSON" \
  '*.h' '*.cpp' ':!estimator/report/*.cpp'
forbid "$(include 'zlib')" "only the trace reader unpacks files" \
  'estimator/*' 'layers/*' ':!estimator/memory/trace.cpp' ':!*CMakeLists.txt'
forbid "$(include 'iostream|print>')|std::(cout|cerr|clog)|[^a-z_]f?printf\(|[^a-z_]f?puts\(" \
  "only tools/ prints" 'estimator/*' 'layers/*' ':!*CMakeLists.txt'
forbid '(^|[^a-zA-Z_.])(std::)?(quick_|_)?(exit|abort|terminate)\(|[^a-z_]getenv\(' \
  "only tools/ ends the process or reads the environment" 'estimator/*' 'layers/*' ':!*CMakeLists.txt'
forbid "$(include 'yaml-cpp')" \
  "only the readers of model and GPU files know YAML" \
  'estimator/*' 'layers/*' 'validate/*' ':!estimator/spec/*.cpp' ':!estimator/spec/yaml*.h' \
  ':!estimator/device/*.cpp'
forbid "$(include 'estimator/(schedule|plan|report|optimizer|memory/(allocator|liveness|lifetimes))|estimator/spec/(read|parse|expand|yaml)')" \
  "layers/ see the vocabulary only: layer, graph, primitive, shape, dtype, integers, scratch formulas" 'layers/*'
forbid "$(include "layers/|validate/|tools/|tests/|configs/|CLI/|yaml|$cuda")" \
  "a layer knows no other layer, no data and no device" 'layers/*.cpp'
forbid "$(include "layers/|tools/|tests/|yaml|CLI/")" "validate/ sees the plan and the device only" 'validate/*'
forbid "$(include "$cuda")" "only validate/cuda*, validate/shadow/ and the emulation know CUDA" \
  '*.h' '*.cpp' ':!validate/cuda*' ':!validate/shadow/*' ':!tests/cuda/emulation/*'
forbid "$(include 'tools/|CLI/')" "nothing depends on tools/" '*.h' '*.cpp' ':!tools/*' ':!tests/*'
forbid "$(include 'tests/|doctest')" "nothing depends on tests/" '*.h' '*.cpp' ':!tests/*'
forbid '#[[:space:]]*include[[:space:]]*"\.\.?/' "includes are written from the root" '*.h' '*.cpp' '*.cu'

# A stage includes no later stage. report/report.h is vocabulary: the numbers that the stages fill in, as values.
stage="estimator/(graph|schedule|memory|plan|report)"
forbid "$(include "$stage")" "spec/ comes first" 'estimator/spec/*'
forbid "$(include 'estimator/(schedule|plan|report)')" "graph/ comes before the schedule" 'estimator/graph/*'
forbid "$(include 'estimator/plan')" "the plan is made of the stages, a search of plans" \
  'estimator/*' ':!estimator/plan*' ':!estimator/search/*'
forbid "$(include 'estimator/report/([a-qs-z]|report_)')" "the report's writers come last" \
  'estimator/*' ':!estimator/plan.cpp' ':!estimator/plan_rank.cpp' ':!estimator/report/*' ':!estimator/search/*'

exit $status
