//go:build crd

package main

// The CRDs of TidbCluster, ServiceMonitor and PrometheusRule are generated from these types.
import (
	_ "github.com/pingcap/tidb-operator/pkg/apis/pingcap/v1alpha1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)
