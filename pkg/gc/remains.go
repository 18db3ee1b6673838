package gc

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// remains decides about stored objects of backups that were never sealed or are being removed.
func (j *decider) remains() []Item {
	var out []Item
	for id, e := range j.backups {
		it := Item{
			Kind: KindBackup, ID: string(id), Backup: id, Run: e.Run, Cluster: name(e.Cluster), SizeGiB: e.SizeGiB,
		}
		switch e.State {
		case catalog.StateSealed:
			if problem, bad := j.broken[id]; bad {
				out = append(out, it.decided(ActionKeep, "%s", problem))
			}
		case catalog.StateDamaged:
			out = append(out, it.decided(ActionKeep, "%s", e.Problem))
		case catalog.StateRemoving:
			if pin := j.pin(id, e.Run); pin != nil {
				out = append(out, it.decided(ActionKeep, "it is %s", pin.Pin))
				continue
			}
			out = append(out, it.decided(ActionDelete, "it is being removed"))
		case catalog.StateUnsealed:
			out = append(out, j.unsealed(it))
		case catalog.StateBroken, catalog.StateUntrusted:
			// states that `tisnap list` adds after asking EC2 or checking a key
		}
	}
	return out
}

func name(n cluster.Name) string {
	if n == (cluster.Name{}) {
		return ""
	}
	return n.String()
}

func (j *decider) unsealed(it Item) Item {
	if !j.known[it.Run] {
		return it.decided(ActionKeep, "it is not sealed, and its run %q has no journal here", it.Run)
	}
	r, doubt := j.run(it)
	switch {
	case doubt != "":
		return it.decided(ActionKeep, "%s", doubt)
	case r.Backup != it.Backup || !r.makes():
		return it.decided(ActionKeep, "its run's journal names %s %s", r.Operation, r.Backup)
	}
	if because, alive := j.busy(r); alive {
		return it.decided(ActionInUse, "%s", because)
	} else if because != "" {
		return it.decided(ActionKeep, "%s", because)
	}
	return it.decided(ActionDelete, "it is not sealed: %s", r.fate())
}

// fastRestores decides about fast snapshot restores: those enabled only by this storage's dead restores are disabled.
// One in no journal here is someone else's and is not shown.
func (j *decider) fastRestores(all []ebs.FastRestore) []Item {
	var out []Item
	for _, f := range all {
		if f.State == ebs.FastRestoreDisabled || f.State == ebs.FastRestoreDisabling {
			continue
		}
		it := Item{Kind: KindFastRestore, ID: string(f.Snapshot), Zone: f.Zone, Backup: j.named[f.Snapshot]}
		for _, r := range j.runs {
			if !slices.Contains(r.Fast.Snapshots, f.Snapshot) || !slices.Contains(r.Fast.Zones, f.Zone) {
				continue
			}
			because, alive := j.busy(r)
			if alive || because != "" {
				it.Run = r.ID
				it = it.decided(map[bool]Action{true: ActionInUse, false: ActionKeep}[alive], "%s", because)
				break
			}
			it.Run = r.ID
			it = it.decided(ActionDelete, "AWS charges for it by the hour: %s", r.fate())
		}
		if it.Action != "" {
			out = append(out, it)
		}
	}
	return out
}

// holds returns which items keep a backup's objects, which are deleted only after all its snapshots.
func (r *Report) holds(id cluster.BackupID) string {
	n := 0
	for _, i := range r.Items {
		if i.Kind == KindSnapshot && i.Backup == id && i.Action != ActionDeleted {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of its snapshots still exist", n)
}
