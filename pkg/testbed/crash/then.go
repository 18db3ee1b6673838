package crash

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/runs"
)

// Then is the command that follows the kill of a restore, before the restore itself is given again.
type Then string

// What may follow.
const (
	Again     Then = "" // nothing else
	Abort     Then = "abort"
	GC        Then = "gc"
	GCCluster Then = "gc-cluster" // a gc that removes what is in Kubernetes, too
)

// Thens lists all of them.
func Thens() []Then { return []Then{Again, Abort, GC, GCCluster} }

// removable reports whether a target of the run can be removed by another command.
func (r Run) removable() bool { return r.restores() && !r.resolves() }

// removed has another command remove what the process that was killed left, and proves that nothing of it is left. A
// target that may serve is kept, whatever the command.
func (s *scene) removed(ctx context.Context, then Then) error {
	args := []string{"gc", "--yes", "--older-than", "0s", "--delete-rate", "100"}
	switch then {
	case Again, GC:
	case GCCluster:
		args = append(args, "--cluster")
	case Abort:
		last, err := runs.Last(ctx, s.store, s.target)
		if err != nil || last == nil || last.State != runs.Unfinished {
			return err // it was killed before its first record, or after its last one
		}
		args = []string{"runs", "abort", string(last.ID), "--yes"}
	}
	code, err := s.tisnap(ctx, args...)
	serves := s.leftRecovery()
	switch {
	case err != nil:
		return err
	case code != 0 && (then != Abort || code != exitConflict || !serves):
		return fmt.Errorf("tisnap %s ended with %d", args[0], code)
	case then == GC || serves:
		return nil
	}
	if left := s.left(); len(left) > 0 {
		return fmt.Errorf("after the %s there are still: %s", then, strings.Join(left, ", "))
	}
	return s.balanced(ctx)
}

// leftRecovery reports whether the target exists and is not in recovery mode.
func (s *scene) leftRecovery() bool {
	if o := s.bed.Kube.Get("clusters", s.target.Namespace, s.target.Name); o != nil {
		return o.GetAnnotations()["tisnap.io/recovering"] == ""
	}
	o := s.bed.Kube.Get("tidbclusters", s.target.Namespace, s.target.Name)
	if o == nil {
		return false
	}
	recovering, _, _ := unstructured.NestedBool(o.Object, "spec", "recoveryMode")
	return !recovering
}

// left lists the target's objects in Kubernetes.
func (s *scene) left() []string {
	var out []string
	for _, resource := range targetResources() {
		for _, o := range s.bed.Kube.List(resource, s.target.Namespace) {
			if isOf(o, s.target.Name) {
				out = append(out, resource+"/"+o.GetName())
			}
		}
	}
	for _, pv := range s.bed.Kube.List("persistentvolumes", "") {
		claim, _, _ := unstructured.NestedString(pv.Object, "spec", "claimRef", "name")
		if strings.Contains(claim, "-"+s.target.Name+"-") {
			out = append(out, "persistentvolumes/"+pv.GetName())
		}
	}
	return out
}
