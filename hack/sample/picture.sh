#!/usr/bin/env bash
# Writes docs/sample-report.png, the first screen of docs/sample-report.html. It needs Chromium, as make test-page installs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" --window-size=1000,750 \
  --screenshot="$PWD/docs/sample-report.png" "file://$PWD/docs/sample-report.html" 2>/dev/null
