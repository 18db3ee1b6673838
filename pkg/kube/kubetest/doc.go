// Package kubetest is a small Kubernetes API server on loopback with a stand-in for TiDB Operator behind it.
//
// Server keeps objects as a real API server does: resource versions and conflicts, uids, watches, patches,
// owner references, Status bodies; over plain HTTP and always in JSON. Operator plays TiDB Operator, 1.x and
// 2.x at once (core_*.go, by the API group's name), and the parts of Kubernetes that it leans on: the binder
// of claims and volumes, the scheduler, the StatefulSet controller and, through Runtime and Disks, the kubelet
// and the EBS CSI driver. What it writes looks like what the real ones write. Nothing here imports the
// adapter's clients, so that the adapter is tested against the wire.
package kubetest
