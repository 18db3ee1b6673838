package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
)

// Kube is the part of the targets' Kubernetes cluster that gc uses.
type Kube interface {
	kube.Handles
	kube.Leftovers
}

// unfinished reports whether a restore may have left a target that never served.
func (r *run) unfinished() bool {
	return r.Operation == journal.Restore && !r.Served && (!r.Ended || r.Error != "")
}

// readLeftovers asks Kubernetes what unfinished restores left, if it is the cluster that they were made in.
func (w *world) readLeftovers(ctx context.Context, d Deps) {
	w.leftovers, w.strays = map[cluster.RunID]kube.RestoreLeftover{}, map[cluster.Name]strays{}
	w.claims = map[cluster.RunID]map[string]string{}
	unfinished := w.unfinished()
	if len(unfinished) == 0 {
		return
	}
	w.readHandles(ctx, d)
	if w.noLeftovers = w.noHandles; w.noLeftovers != nil {
		return
	}
	for _, r := range unfinished {
		if r.KubernetesUID != "" && r.KubernetesUID != w.kubernetesUID {
			continue
		}
		found, err := w.kube.Leftover(ctx, r.Cluster, r.ID)
		if err != nil {
			w.noLeftovers = failure.Annotate(err, "find what a restore left in Kubernetes", "run "+string(r.ID))
			return
		}
		if found.Absent {
			w.claims[r.ID] = found.Bound
		}
		if len(found.Strays) > 0 && r.ID > w.strays[r.Cluster].run {
			w.strays[r.Cluster] = strays{run: r.ID, found: found.Strays}
		}
		if !found.Empty() {
			w.leftovers[r.ID] = found
		}
	}
}

// goes reports whether the run's target is removed together with its volumes.
func (j *decider) goes(r *run) bool {
	found, there := j.leftovers[r.ID]
	if !there || !j.clusters {
		return false
	}
	action, _ := j.target(r, found)
	return action == ActionDelete
}

// targets decides about what restores left in Kubernetes: everything that one of them left goes or stays together.
func (j *decider) targets() []Item {
	var out []Item
	for _, id := range slices.Sorted(maps.Keys(j.leftovers)) {
		r, found := j.runs[id], j.leftovers[id]
		action, reason := j.target(r, found)
		add := func(kind Kind, name string) {
			out = append(out, Item{
				Kind: kind, ID: name, Run: id, Backup: r.Backup, Cluster: r.Cluster.String(), Action: action,
				Reason: reason,
			})
		}
		if found.UID != "" {
			add(KindCluster, r.Cluster.String())
		}
		for _, name := range found.Claims {
			add(KindClaim, r.Cluster.Namespace+"/"+name)
		}
		for _, name := range found.Volumes {
			add(KindPV, name)
		}
	}
	return out
}

func (j *decider) target(r *run, found kube.RestoreLeftover) (Action, string) {
	because, alive := j.busy(r)
	switch {
	case alive:
		return ActionInUse, because
	case because != "":
		return ActionKeep, because
	case found.Serves != "":
		return ActionKeep, found.Serves
	case r.KubernetesUID == "":
		return ActionKeep,
			fmt.Sprintf(
				"its run did not record the Kubernetes cluster (API server %s); delete it by hand",
				orUnknown(r.Kubernetes))
	}
	if lock := j.locks[r.Cluster]; lock.Held(j.now) {
		return ActionInUse, "another run has the cluster: " + lock.Record.Owner.String()
	}
	if because, alive := j.resolving(r); alive {
		return ActionInUse, because
	} else if because != "" {
		return ActionKeep, because
	}
	switch {
	case r.Keep && !j.kept:
		return ActionKeep, "its run failed with --keep-on-failure"
	case !j.clusters:
		return ActionKeep, r.fate() +
			fmt.Sprintf(
				"; finish it with tisnap resolve, or remove it: tisnap restore abort %s, or tisnap gc --cluster", r.ID)
	}
	return ActionDelete, r.fate()
}

// resolving names the resolve that is working on a restore's target, or has finished it.
func (j *decider) resolving(restored *run) (because string, alive bool) {
	for _, id := range slices.Sorted(maps.Keys(j.runs)) {
		r := j.runs[id]
		if r.Operation != journal.Resolve || r.Cluster != restored.Cluster {
			continue
		}
		because, alive := j.busy(r)
		switch {
		case because != "":
			return fmt.Sprintf("resolve %s: %s", r.ID, because), alive
		case r.Served, r.Ended && r.Error == "":
			return fmt.Sprintf("resolve %s finished it and the cluster served, so it may hold newer data; delete it "+
				"by hand if cluster %s is gone", r.ID, r.Cluster), false
		}
	}
	return "", false
}
