#!/usr/bin/env bash
# Opens the exporter's page and the reports in headless Chromium: tests/page. Chromium is Debian's, which this installs if
# there is none; axe-core is the pinned one of npm, in .tools/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
axe_version=4.10.3
axe_sha256=880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v npm >/dev/null || missing+=(npm)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "install ${missing[*]}"
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" fonts-dejavu-core >/dev/null
fi
axe="$PWD/.tools/axe-core/$axe_version/axe.min.js"
if [ ! -f "$axe" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && npm pack --silent "axe-core@$axe_version" >/dev/null && tar -xzf "axe-core-$axe_version.tgz")
  mkdir -p "$(dirname "$axe")"
  echo "$axe_sha256  $work/package/axe.min.js" | sha256sum --check --quiet
  mv "$work/package/axe.min.js" "$axe"
fi
# What tisnap itself requires changes more often than this module: that is added to a copy of its go.mod.
mod="$PWD/.tools/page/go.mod"
mkdir -p "$(dirname "$mod")"
cp tests/page/go.mod "$mod"
sort -u tests/page/go.sum go.sum >"${mod%.mod}.sum"
cd tests/page
CGO_ENABLED=0 TISNAP_TEST_AXE="$axe" "${GO:-go}" test -mod=mod -modfile="$mod" -trimpath -count=1 -timeout=15m ./...
