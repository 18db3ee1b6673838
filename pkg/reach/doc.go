// Package reach decides how PD and the stores are reached: over this machine's network, at the addresses of a map, or
// through the API server of Kubernetes.
package reach
