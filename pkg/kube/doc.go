// Package kube is the part of Kubernetes and TiDB Operator that tisnap uses: the TidbCluster, the pods, claims and
// volumes of its TiKV stores, and the few writes of a restore.
//
// contract.go holds the contract, client.go and its neighbours the adapter over client-go. The kinds of errors are in
// kubeerr, port forwards in forward, and the run's mark on the objects it makes in runmark. Everything specific to TiDB
// Operator 1.x is in operator1, which makes no calls: those are made here. The stand-in, a small API server with a TiDB
// Operator behind it, is in kubetest.
package kube
