// Package kube is the part of Kubernetes and TiDB Operator that tisnap uses: the TidbCluster, the pods, claims and
// volumes of its TiKV stores, and the few writes of a restore.
//
// contract.go holds the contract, client.go and its neighbours the adapter over client-go. The kinds of errors are in
// kubeerr, port forwards in forward, the run's mark on what it makes in runmark. What is TiDB Operator 1.x's own is in
// operator1, which calls nobody: this package does, and knows of a TidbCluster what that says. The stand-in, a small
// API server with a TiDB Operator behind it, is in kubetest.
package kube
