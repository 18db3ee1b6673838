#!/usr/bin/env bash
# Writes docs/sample-report.html, the report of a backup and of its restore on the testbed. It needs bin/, from make build.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(mktemp)
bin/testbed serve >"$out" &
bed=$!
trap 'kill $bed; wait $bed 2>/dev/null || true; rm -f "$out"' EXIT
until grep -q '^export ' "$out"; do
  kill -0 $bed
  sleep 0.2
done
eval "$(grep '^export ' "$out")"
bin/tisnap backup tidb/prod --name nightly-1 --progress none
bin/tisnap restore nightly-1 --to tidb/copy --volume-type gp3 --volume-iops 7000 --volume-throughput 400 --progress none
bin/tisnap report nightly-1 --format html --out docs/sample-report.html
