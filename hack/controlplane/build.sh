#!/usr/bin/env bash
# Builds the control plane of the tests (tests/kube/controlplane: etcd, kube-apiserver, kube-controller-manager and
# kube-scheduler, from the Go module proxy) and the CustomResourceDefinitions of TidbCluster, from TiDB Operator's Go types,
# and of ServiceMonitor and PrometheusRule, from Prometheus Operator's, and prints the folder that holds all of it. It is
# made once a machine for each version of the sources: it takes about 600 CPU-seconds with nothing built before.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$script")/../../tests/kube/controlplane"
source "$(dirname "$script")/../tools.sh"
go=${GO:-go}
made=$(tool_folder controlplane go.mod go.sum ./*.go "$script" <("$go" env GOVERSION))
lock_tool "$made"
if ! whole_tool "$made"; then
  echo "build the control plane into $made" >&2
  rm -rf "$made".build-* # of a build that was killed
  work=$(mktemp -d "$made.build-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  apis=github.com/pingcap/tidb-operator/pkg/apis
  CGO_ENABLED=0 "$go" tool controller-gen crd:crdVersions=v1,allowDangerousTypes=true,maxDescLen=0 \
    "paths=$apis/pingcap/v1alpha1" "output:crd:dir=$work/crds" >&2
  rm -f "$work"/crds/*dataresources.yaml # of a type that no version of the Operator serves
  apis=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring
  CGO_ENABLED=0 "$go" tool controller-gen crd:crdVersions=v1,maxDescLen=0 "paths=$apis/v1" "output:crd:dir=$work/monitoring" >&2
  for kind in servicemonitors prometheusrules; do # what manifests/monitoring has; the others are large
    mv "$work/monitoring/monitoring.coreos.com_$kind.yaml" "$work/crds/"
  done
  rm -r "$work/monitoring"
  CGO_ENABLED=0 "$go" build -trimpath -ldflags '-s -w' -o "$work/controlplane" .
  seal_tool "$work"
  mv "$work" "$made"
  trap - EXIT
fi
echo "$made"
