#!/usr/bin/env bash
# Checks the alerts of manifests/monitoring by promtool, and runs their unit tests. promtool is built from its pinned module
# (tools.mod) into the user's cache, without the discovery of targets, which is most of Prometheus; the first build takes
# minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source hack/tools.sh
made=$(tool_folder promtool hack/promtool/tools.mod hack/promtool/tools.sum <("${GO:-go}" env GOVERSION))
lock_tool "$made"
if ! whole_tool "$made"; then
  echo "build promtool"
  CGO_ENABLED=0 "${GO:-go}" build -modfile=hack/promtool/tools.mod -trimpath -tags grpcnotrace,remove_all_sd \
    -o "$made/promtool" github.com/prometheus/prometheus/cmd/promtool
  seal_tool "$made"
fi
exec 9>&-
promtool=$made/promtool
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What stands below spec: of a PrometheusRule is a rule file of Prometheus.
awk '/^spec:/ {inside = 1; next} inside {sub(/^  /, ""); print}' manifests/monitoring/prometheusrule.yaml >"$work/rules.yaml"
cp manifests/monitoring/rules_test.yaml "$work/"
"$promtool" check rules "$work/rules.yaml"
"$promtool" test rules "$work/rules_test.yaml"
# Each query of the dashboard as a recording rule: promtool parses it as Prometheus does. $cluster is within a string.
sed -n 's/^ *"expr": "\(.*\)",\{0,1\}$/\1/p' manifests/monitoring/grafana-dashboard.json | sed 's/\\"/"/g' >"$work/queries"
queries=$(grep -c '"expr":' manifests/monitoring/grafana-dashboard.json)
[ "$(wc -l <"$work/queries")" = "$queries" ] || { echo "not every query of the dashboard was found"; exit 1; }
awk 'BEGIN {print "groups:\n  - name: dashboard\n    rules:"}
  {printf "      - record: dashboard:query%d\n        expr: |-\n          %s\n", NR, $0}' "$work/queries" >"$work/dashboard.yaml"
"$promtool" check rules "$work/dashboard.yaml"
