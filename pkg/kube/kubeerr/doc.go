// Package kubeerr classifies errors of the Kubernetes API server and of the connection to it: the error table of
// package kube and the packages below it.
package kubeerr
