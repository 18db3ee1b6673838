// Package preflight finds, before anything is changed, what would fail later: stores that Kubernetes and
// PD disagree about, volumes on the wrong instance, a resolved ts that does not advance, quotas, permissions.
// Nothing here changes anything.
package preflight
