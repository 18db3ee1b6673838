// Package kubeerr says what a caller can do about what the API server of Kubernetes answers, and about the way there:
// the error table of package kube and of what is below it.
package kubeerr
