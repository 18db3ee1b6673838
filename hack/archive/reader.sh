#!/usr/bin/env bash
# Runs the tests of the independent reader of archives, tests/archive/reader.py, with the one package that it needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source hack/tools.sh

home="$(tool_folder archive-reader tests/archive/requirements.txt)"
lock_tool "$home"
if ! whole_tool "$home"; then
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet --requirement tests/archive/requirements.txt
  seal_tool "$home"
fi
exec 9>&-
if ! "$home/bin/python" -c 'import compression.zstd' 2>/dev/null && ! command -v zstd >/dev/null; then
  echo "install zstd"
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends zstd >/dev/null
fi
CGO_ENABLED=0 TISNAP_TEST_PYTHON="$home/bin/python" "${GO:-go}" test -trimpath -count=1 -timeout=5m ./tests/archive
