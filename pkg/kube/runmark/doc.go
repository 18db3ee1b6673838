// Package runmark is the mark of the run that made an object of Kubernetes.
package runmark
