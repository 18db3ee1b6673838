package create

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Compared is what a volume was compared with.
type Compared string

// The values of Compared.
const (
	WithNothing  Compared = "nothing"  // all blocks are read
	WithArchive  Compared = "archive"  // all blocks are read, and stored where they differ from the base archive
	WithSnapshot Compared = "snapshot" // the blocks that EBS lists as changed since the base's snapshot are read
	WithItself   Compared = "itself"   // the base is of the same snapshot: nothing is read
)

// work is one volume to archive.
type work struct {
	manifest.Snapshot
	compared Compared
	base     format.Volume      // in the base archive
	since    cluster.SnapshotID // of the base
	free     *ext4.Map          // nil if free blocks are not asked for
}

func (w *work) slot() slot { return slot{w.Store, w.Role} }

// toArchive opens the snapshot, or its difference from the base's, to be archived.
func (w *work) toArchive(ctx context.Context, b Blocks, skip SkipFree) (task volume.Task, err error) {
	src, err := snapshot.Open(ctx, b, w.ID, w.since)
	if err != nil {
		return task, err
	}
	task = volume.Task{
		Source: src, Whole: src.Whole(), Audit: skip == SkipAudit,
		Base: volume.Base{
			Segments: w.base.Segments, Proofs: w.base.Proofs, Differential: w.compared == WithSnapshot,
		},
	}
	if w.free != nil {
		task.Free = w.free.Free
	}
	return task, nil
}

// freeUnknown is Volume.FreeUnknown.
func (w *work) freeUnknown() string {
	if w.free == nil {
		return ""
	}
	return w.free.Reason()
}

// makeWorks finds out what each volume can be compared with.
func (r *run) makeWorks(ctx context.Context, s *phase.Scope, condemned *lease.Condemned) error {
	bases, err := r.bases(ctx, s)
	if err != nil {
		return err
	}
	r.works = nil
	var since []cluster.SnapshotID
	for _, snap := range r.manifest.Snapshots {
		w := work{Snapshot: snap, compared: WithNothing}
		base, there := bases[w.slot()]
		if there {
			if there, err = condemned.Allows(ctx, r.Repository, base.Segments); err != nil {
				return err
			}
			if !there {
				s.Note("%s: a prune condemned objects of its base: reading and storing all blocks", w.slot())
			}
		}
		switch {
		case !there:
		case base.Source == string(snap.ID) && (base.Counts.Free == 0 || r.opts.SkipFree == SkipAuto):
			w.compared, w.base = WithItself, base.Volume
		case base.Size <= snap.SizeGiB<<30:
			w.compared, w.base = WithArchive, base.Volume
			if base.of == snap.Volume && base.Size == snap.SizeGiB<<30 && base.ts <= r.manifest.BackupTS &&
				base.Source != string(snap.ID) {
				w.since = cluster.SnapshotID(base.Source)
				since = append(since, w.since)
			}
		}
		r.works = append(r.works, w)
	}
	return r.keepReadable(ctx, s, since)
}

// keepReadable compares by snapshots as far as those of the base still exist.
func (r *run) keepReadable(ctx context.Context, s *phase.Scope, since []cluster.SnapshotID) error {
	there := map[cluster.SnapshotID]bool{}
	if len(since) > 0 {
		found, err := r.EC2.DescribeSnapshots(ctx, since)
		if err != nil {
			return failure.Annotate(err, "describe snapshots", r.choice.Base)
		}
		for i := range found {
			there[found[i].ID] = readable(&found[i])
		}
	}
	for i := range r.works {
		switch w := &r.works[i]; {
		case w.since == "":
		case there[w.since]:
			w.compared = WithSnapshot
		default:
			s.Note("%s: snapshot %s of the base is gone: reading all blocks and comparing them", w.slot(), w.since)
			w.since = ""
		}
	}
	return nil
}

// baseVolume is a volume in the base archive.
type baseVolume struct {
	format.Volume
	of cluster.VolumeID
	ts cluster.TS // of its backup
}

// bases returns the volumes of the base archive; none without one.
func (r *run) bases(ctx context.Context, s *phase.Scope) (map[slot]baseVolume, error) {
	if r.choice.Base == "" {
		return nil, nil
	}
	a, err := r.Repository.Archive(ctx, r.choice.Base)
	if failure.Is(err, failure.NotFound) { // forgotten since the run began
		s.Note("the base %s was forgotten: reading and storing all blocks", r.choice.Base)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := manifest.Decode(a.Manifest.Data)
	if err != nil {
		return nil, failure.Annotate(err, "read archive", r.choice.Base)
	}
	volumes := map[cluster.SnapshotID]cluster.VolumeID{}
	for _, snap := range m.Snapshots {
		volumes[snap.ID] = snap.Volume
	}
	out := map[slot]baseVolume{}
	for _, store := range a.Stores {
		for _, v := range store.Volumes {
			out[slot{cluster.StoreID(store.ID), cluster.Role(v.Role)}] = baseVolume{
				Volume: v, of: volumes[cluster.SnapshotID(v.Source)], ts: m.BackupTS,
			}
		}
	}
	return out, nil
}
