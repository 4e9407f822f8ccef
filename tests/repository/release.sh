#!/usr/bin/env bash
# tools/release: two runs give the same bytes, the package and the bill of materials are what their readers take. It builds
# gpuplan twice, so only where GPUPLAN_ALL is set.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ -n "${GPUPLAN_ALL:-}" ] || { echo "builds gpuplan twice: asked for with --all"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
fail() {
  echo "FAIL  $1"
  status=1
}
for run in 1 2; do
  tools/release "$work/$run" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
done
diff -r "$work/1" "$work/2" || fail "two runs differ"
cd "$work/1" || exit 1
sha256sum --check --quiet SHA256SUMS || fail "the checksums"
[ "$(find . -type f | wc -l)" -eq 5 ] || fail "what is there: $(ls)"
mkdir "$work/archive" && tar -xzf gpuplan-*.tar.gz -C "$work/archive" --strip-components 1
[ "$(env -i "$work/archive/bin/gpuplan" zoo:mlp -b 8 --gpu l4 -q | grep -c '✔ fits')" = 1 ] || fail "the archive's program"
! strings "$work/archive/bin/gpuplan" | grep -F "$OLDPWD" || fail "the program names a folder of this machine"
dpkg-deb --field gpuplan_*.deb Depends | grep -qE '^libc6 \(>= 2\.[0-9]+\), libgcc-s1$' || fail "the package needs more than glibc and libgcc_s"
dpkg-deb --contents gpuplan_*.deb | grep -q './usr/share/man/man1/gpuplan.1.gz$' || fail "the package has no manual"
if python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet spdx-tools 2>"$work/log"; then
  "$work/venv/bin/pyspdxtools" -i gpuplan-*.spdx.json >"$work/log" 2>&1 || fail "the bill of materials: $(cat "$work/log")"
else
  echo "skip  the bill of materials: $(tail -n 1 "$work/log")"
fi
exit $status
