// Package kube is the folder of the tests that hold the adapter of Kubernetes, its stand-in and manifests/ against a real
// control plane: make test-kube. One suite runs against both API servers, so that they cannot drift apart; make test runs it
// against the stand-in alone.
package kube
