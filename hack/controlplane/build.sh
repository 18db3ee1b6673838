#!/usr/bin/env bash
# Builds the control plane of the tests (tests/kube/controlplane: etcd, kube-apiserver, kube-controller-manager and
# kube-scheduler, from the Go module proxy) and the CustomResourceDefinitions of TidbCluster, from TiDB Operator's Go types,
# and of ServiceMonitor and PrometheusRule, from Prometheus Operator's, and prints the folder that holds all of it. A folder
# for each version of the sources is kept in the user's cache, so that this is done once a machine: it takes about 600
# CPU-seconds with nothing built before.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$script")/../../tests/kube/controlplane"
go=${GO:-go}
key=$( (cat go.mod go.sum ./*.go "$script" && "$go" env GOVERSION) | sha256sum | cut -c1-16)
root=${XDG_CACHE_HOME:-$HOME/.cache}/tisnap/controlplane
made=$root/$key
if [ ! -x "$made/controlplane" ] || [ ! -d "$made/crds" ]; then
  mkdir -p "$root"
  exec 9>"$root/lock"
  flock 9 # two at once would build twice
  if [ ! -x "$made/controlplane" ] || [ ! -d "$made/crds" ]; then
    echo "build the control plane into $made" >&2
    work=$(mktemp -d "$root/build-XXXXXX")
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
    rm -rf "$made"
    mv "$work" "$made"
    trap - EXIT
  fi
fi
echo "$made"
