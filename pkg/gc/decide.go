package gc

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
)

// judge decides what happens to each item found. It does no I/O.
type judge struct {
	world
	olderThan time.Duration
	kept      bool // also delete what failed runs with --keep-on-failure made
	clusters  bool // also delete what unfinished restores left in Kubernetes
}

func item(kind Kind, id string, tags ebs.Tags, sizeGiB int64) Item {
	return Item{
		Kind: kind, ID: id, Run: cluster.RunID(tags[ebs.TagRun]), Backup: cluster.BackupID(tags[ebs.TagBackup]),
		Cluster: tags[ebs.TagCluster], SizeGiB: sizeGiB,
	}
}

func (i Item) verdict(a Action, format string, args ...any) Item {
	i.Action, i.Reason = a, fmt.Sprintf(format, args...)
	return i
}

// snapshot decides about a snapshot; ok is false for one of another storage.
func (j *judge) snapshot(s ebs.Snapshot) (verdict Item, ok bool) {
	it := item(KindSnapshot, string(s.ID), s.Tags, s.SizeGiB)
	if of, sealed := j.named[s.ID]; sealed {
		return it.verdict(ActionInUse, "sealed backup %s names it", of), true
	}
	if !j.known[it.Run] {
		return it, false
	}
	if kept, is := j.another(it, s.Tags); is {
		return kept, true
	}
	if lock, locked := j.locked[s.ID]; locked && lock.Holds() {
		return it.verdict(ActionKeep, "%s", lockedText(lock)), true
	}
	if problem, bad := j.broken[it.Backup]; bad {
		return it.verdict(ActionKeep, "backup %s cannot be read: %s", it.Backup, problem), true
	}
	if j.backups[it.Backup].State == catalog.StateRemoving {
		return it.verdict(ActionDelete, "its backup is being removed"), true
	}
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.verdict(ActionKeep, "%s", doubt), true
	case r.Operation != journal.Backup || r.Backup != it.Backup:
		return it.verdict(ActionKeep, "its tags name backup %s but its run's journal names %s %s", it.Backup,
			r.Operation, r.Backup), true
	}
	if e, there := j.backups[it.Backup]; there && e.Run != it.Run {
		return it.verdict(ActionKeep, "backup %s is of run %s", it.Backup, e.Run), true
	}
	if because, alive := j.busy(r); alive {
		return it.verdict(ActionInUse, "%s", because), true
	} else if because != "" {
		return it.verdict(ActionKeep, "%s", because), true
	}
	if j.backups[it.Backup].State == catalog.StateSealed {
		return it.verdict(ActionDelete, "its backup is sealed without it"), true
	}
	return it.verdict(ActionDelete, "%s", r.fate()), true
}

func lockedText(l ebs.SnapshotLock) string {
	if l.ExpiresAt.IsZero() {
		return "it is locked (" + l.Mode + ")"
	}
	return fmt.Sprintf("it is locked (%s), until %s", l.Mode, l.ExpiresAt.UTC().Format(time.RFC3339))
}

// run returns an item's run in this storage, or what is unknown about it.
func (j *judge) run(it Item) (*run, string) {
	if err := j.doubts[it.Run]; err != nil {
		return nil, err.Error()
	}
	r := j.runs[it.Run]
	if r == nil {
		return nil, "its run's journal was not read"
	}
	return r, ""
}

// busy returns why the run's resources must not be touched now: it is or may be alive, or it wrote its journal
// recently.
func (j *judge) busy(r *run) (because string, alive bool) {
	if why := j.alive(r); why != "" {
		return why, j.unread[r.Lock()] == nil
	}
	if age := j.now.Sub(r.Last); age < j.olderThan {
		return fmt.Sprintf("its run wrote its journal only %s ago (limit %s)", age.Round(time.Second),
			j.olderThan), false
	}
	return "", false
}

// volume decides about a volume; ok is false for one of another storage.
func (j *judge) volume(v ebs.Volume) (verdict Item, ok bool) {
	it := item(KindVolume, string(v.ID), v.Tags, v.Spec.SizeGiB)
	if !j.known[it.Run] {
		return it, false
	}
	if kept, is := j.another(it, v.Tags); is {
		return kept, true
	}
	if r := j.runs[it.Run]; r != nil && j.goes(r) {
		// and is decided about again then
		return it.verdict(ActionDelete, "it is deleted with cluster %s", r.Cluster), true
	}
	if v.Instance != "" || v.State == ebs.VolumeInUse {
		return it.verdict(ActionInUse, "it is attached to %s", v.Instance), true
	}
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.verdict(ActionKeep, "%s", doubt), true
	case r.Operation != journal.Restore || r.Cluster.String() != it.Cluster:
		return it.verdict(ActionKeep, "its tags name cluster %s but its run's journal names %s %s", it.Cluster,
			r.Operation, r.Cluster), true
	}
	if because, alive := j.busy(r); alive {
		return it.verdict(ActionInUse, "%s", because), true
	} else if because != "" {
		return it.verdict(ActionKeep, "%s", because), true
	}
	if r.Bound { // otherwise no cluster ever had it: a resolve since then finished a later restore
		if because, alive := j.resolving(r); alive {
			return it.verdict(ActionInUse, "%s", because), true
		} else if because != "" {
			return it.verdict(ActionKeep, "%s", because), true
		}
	}
	switch {
	case r.Served, r.Ended && r.Error == "":
		return it.verdict(ActionKeep,
			"the restored cluster has served, so it may hold newer data; delete it by hand if cluster %s is gone",
			r.Cluster), true
	case r.Keep && !j.kept:
		return it.verdict(ActionKeep, "its run failed with --keep-on-failure"), true
	}
	return j.unnamed(it, v.ID, r)
}

// unnamed decides about a volume that only a persistent volume might still need.
func (j *judge) unnamed(it Item, id cluster.VolumeID, r *run) (Item, bool) {
	pv, named := j.handles[id]
	switch {
	case j.noHandles != nil:
		return it.verdict(ActionKeep, "it is unknown whether a persistent volume names it: %v", j.noHandles), true
	case named:
		return it.verdict(ActionKeep, "persistent volume %s names it; delete cluster %s first", pv, r.Cluster), true
	case r.Bound && r.KubernetesUID == "":
		return it.verdict(ActionKeep,
			"persistent volumes may name it, and its run did not record the Kubernetes cluster (API server %s); "+
				"delete it by hand if cluster %s is gone", orUnknown(r.Kubernetes), r.Cluster), true
	case r.Bound && r.KubernetesUID != j.kubernetesUID:
		return it.verdict(ActionKeep,
			"persistent volumes of Kubernetes cluster %s (API server %s) may name it, and this one is %s (%s)",
			r.KubernetesUID, orUnknown(r.Kubernetes), j.kubernetesUID, j.kubernetes), true
	}
	return it.verdict(ActionDelete, "%s", r.fate()), true
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
