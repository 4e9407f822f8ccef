#!/usr/bin/env bash
# The repository stands alone: no file names a place on somebody's machine or beside the clone, and every page that a
# file refers to is here.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0

home='(^|[^A-Za-z0-9_./-])/(home|root|Users|work|mnt|private|tmp/[a-z_]*jobs)(/|$|[^A-Za-z0-9_])'
beside='(^|[^A-Za-z0-9_./-]|\.\./)[s]hared/'
if git grep -nIE "$home|$beside" -- ':!tests/repository/self_contained.sh'; then
  echo "  ^ names a private path"
  status=1
fi

# Pages: words that end in .md, in comments and in other pages. Links to other sites are not ours, and neither are the
# pages that the sources of GPUs' figures name, nor those that tests of writing write.
while IFS=: read -r file line page; do
  [ -n "$(git ls-files "$page" "*/$page")" ] && continue
  [ -e "$(dirname "$file")/$page" ] && continue
  echo "$file:$line: there is no $page"
  status=1
done < <(git grep -nIoE '(^|[^A-Za-z0-9_/.:-])[A-Za-z0-9_][A-Za-z0-9_/-]*\.md\b' -- \
  '*.h' '*.cpp' '*.cmake' '*CMakeLists.txt' '*.py' '*.sh' '*.md' '*.yaml' 'tools/*' \
  ':!configs/gpus' ':!tests/repository/files.sh' ':!tests/unit/tools/test_files.cpp' |
  sed -E 's/^([^:]*):([0-9]*):[^A-Za-z0-9_]?/\1:\2:/')
exit $status
