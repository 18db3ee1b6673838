// Package preflight finds problems before anything is changed: stores that Kubernetes and PD disagree about, volumes on
// the wrong instance, a resolved ts that does not advance, quotas, permissions. It is read-only.
package preflight
