#!/usr/bin/env bash
# README.md and docs/ show what their commands print, and link to files that are there; README stays short.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -f README.md ] || { echo "there is no README.md"; exit 77; }
status=0
words=$(wc -w <README.md)
[ "$words" -le 2000 ] || { echo "README.md has $words words, at most 2,000 are two screens"; status=1; }
for page in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
  while IFS= read -r link; do
    target=$(dirname "$page")/${link%%#*}
    [ -e "$target" ] || { echo "$page links to $link, which is not there"; status=1; }
  done < <(grep -oE '\]\([^)]+\)' "$page" | sed 's/^](//; s/)$//' | grep -vE '^(https?:|#)')
done
GPUPLAN=${GPUPLAN:-build/gpuplan} tools/readme --check || status=1
exit "$status"
