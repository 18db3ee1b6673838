// Package reach decides how to reach PD and the stores: directly, by an address map, or through the Kubernetes API
// server.
package reach
