// Package runmark marks Kubernetes objects with the run that made them.
package runmark
