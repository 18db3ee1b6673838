package gc

import (
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
)

// decider decides what happens to each item found. It does no I/O.
type decider struct {
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

func (i Item) decided(a Action, format string, args ...any) Item {
	i.Action, i.Reason = a, fmt.Sprintf(format, args...)
	return i
}

// snapshot decides about a snapshot; ok is false for one of another storage.
func (j *decider) snapshot(s ebs.Snapshot) (decided Item, ok bool) {
	it := item(KindSnapshot, string(s.ID), s.Tags, s.SizeGiB)
	if of, sealed := j.named[s.ID]; sealed {
		return it.decided(ActionInUse, "sealed backup %s names it", of), true
	}
	if !j.known[it.Run] {
		return it, false
	}
	if kept, is := j.another(it, s.Tags); is {
		return kept, true
	}
	if lock, locked := j.locked[s.ID]; locked && lock.Holds() {
		return it.decided(ActionKeep, "%s", lockedText(lock)), true
	}
	if s.Tags[ebs.TagArchive] != "" {
		return j.ofArchive(it), true
	}
	if problem, bad := j.broken[it.Backup]; bad {
		return it.decided(ActionKeep, "backup %s cannot be read: %s", it.Backup, problem), true
	}
	if e := j.backups[it.Backup]; e.State == catalog.StateRemoving {
		if pin := j.pin(it.Backup, e.Run); pin != nil {
			return it.decided(ActionKeep, "its backup is %s", pin.Pin), true
		}
		return it.decided(ActionDelete, "its backup is being removed"), true
	}
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.decided(ActionKeep, "%s", doubt), true
	case !r.makes() || r.Backup != it.Backup:
		return it.decided(ActionKeep, "its tags name backup %s but its run's journal names %s %s", it.Backup,
			r.Operation, r.Backup), true
	}
	if e, there := j.backups[it.Backup]; there && e.Run != it.Run {
		return it.decided(ActionKeep, "backup %s is of run %s", it.Backup, e.Run), true
	}
	if because, alive := j.busy(r); alive {
		return it.decided(ActionInUse, "%s", because), true
	} else if because != "" {
		return it.decided(ActionKeep, "%s", because), true
	}
	if j.backups[it.Backup].State == catalog.StateSealed {
		return it.decided(ActionDelete, "its backup is sealed without it"), true
	}
	return it.decided(ActionDelete, "%s", r.fate()), true
}

// ofArchive decides about a snapshot that a restore made of an archive: once that is over, its volumes do not need it.
func (j *decider) ofArchive(it Item) Item {
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.decided(ActionKeep, "%s", doubt)
	case r.Operation != journal.Restore || r.Cluster.String() != it.Cluster || r.Backup != it.Backup:
		return it.decided(ActionKeep, "its tags name backup %s for cluster %s but its run's journal names %s %s of %s",
			it.Backup, it.Cluster, r.Operation, r.Backup, r.Cluster)
	}
	because, alive := j.busy(r)
	switch {
	case alive:
		return it.decided(ActionInUse, "%s", because)
	case because != "":
		return it.decided(ActionKeep, "%s", because)
	case r.Keep && !r.Served && !j.kept:
		return it.decided(ActionKeep, "its run failed with --keep-on-failure")
	}
	return it.decided(ActionDelete, "%s, and the archive still has its blocks", r.fate())
}

func lockedText(l ebs.SnapshotLock) string {
	if l.ExpiresAt.IsZero() {
		return "it is locked (" + l.Mode + ")"
	}
	return fmt.Sprintf("it is locked (%s), until %s", l.Mode, l.ExpiresAt.UTC().Format(time.RFC3339))
}

// run returns an item's run in this storage, or what is unknown about it.
func (j *decider) run(it Item) (*run, string) {
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
func (j *decider) busy(r *run) (because string, alive bool) {
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
func (j *decider) volume(v ebs.Volume) (decided Item, ok bool) {
	it := item(KindVolume, string(v.ID), v.Tags, v.Spec.SizeGiB)
	if !j.known[it.Run] {
		return it, false
	}
	if kept, is := j.another(it, v.Tags); is {
		return kept, true
	}
	if r := j.runs[it.Run]; r != nil && j.goes(r) {
		// and is decided about again then
		return it.decided(ActionDelete, "it is deleted with cluster %s", r.Cluster), true
	}
	if v.Instance != "" || v.State == ebs.VolumeInUse {
		return it.decided(ActionInUse, "it is attached to %s", v.Instance), true
	}
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.decided(ActionKeep, "%s", doubt), true
	case r.Operation != journal.Restore || r.Cluster.String() != it.Cluster:
		return it.decided(ActionKeep, "its tags name cluster %s but its run's journal names %s %s", it.Cluster,
			r.Operation, r.Cluster), true
	}
	because, alive := j.busy(r)
	if because == "" && r.Bound { // otherwise no cluster ever had it: a resolve since then finished a later restore
		because, alive = j.resolving(r)
	}
	switch {
	case alive:
		return it.decided(ActionInUse, "%s", because), true
	case because != "":
		return it.decided(ActionKeep, "%s", because), true
	}
	switch {
	case r.Served, r.Ended && r.Error == "":
		return it.decided(ActionKeep,
			"the restored cluster has served, so it may hold newer data; delete it by hand if cluster %s is gone",
			r.Cluster), true
	case r.Keep && !j.kept:
		return it.decided(ActionKeep, "its run failed with --keep-on-failure"), true
	}
	return j.unnamed(it, v.ID, r)
}

// unnamed decides about a volume that only a persistent volume might still need.
func (j *decider) unnamed(it Item, id cluster.VolumeID, r *run) (Item, bool) {
	pv, named := j.handles[id]
	switch {
	case j.noHandles != nil:
		return it.decided(ActionKeep, "it is unknown whether a persistent volume names it: %v", j.noHandles), true
	case named:
		return it.decided(ActionKeep, "persistent volume %s names it; delete cluster %s first", pv, r.Cluster), true
	case r.Bound && r.KubernetesUID == "":
		return it.decided(ActionKeep,
			"persistent volumes may name it, and its run did not record the Kubernetes cluster (API server %s); "+
				"delete it by hand if cluster %s is gone", orUnknown(r.Kubernetes), r.Cluster), true
	case r.Bound && r.KubernetesUID != j.kubernetesUID:
		return it.decided(ActionKeep,
			"persistent volumes of Kubernetes cluster %s (API server %s) may name it, and this one is %s (%s)",
			r.KubernetesUID, orUnknown(r.Kubernetes), j.kubernetesUID, j.kubernetes), true
	}
	return it.decided(ActionDelete, "%s", r.fate()), true
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
