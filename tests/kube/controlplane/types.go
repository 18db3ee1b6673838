//go:build crd

package main

// The CRD of TidbCluster is generated from these types.
import _ "github.com/pingcap/tidb-operator/pkg/apis/pingcap/v1alpha1"
