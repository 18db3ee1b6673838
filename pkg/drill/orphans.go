package drill

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/storage"
)

// Orphans lists the cages of this storage that have expired, and of whose runs it has no journal: Clean cannot remove
// them.
func Orphans(ctx context.Context, store objstore.Store, cages Cages, now time.Time) ([]cage.Cage, error) {
	const op = "find expired cages"
	of, err := storage.Read(ctx, store)
	if err != nil {
		return nil, failure.Annotate(err, op, store.URL())
	}
	all, err := cages.List(ctx)
	if err != nil {
		return nil, failure.Annotate(err, op, store.URL())
	}
	var out []cage.Cage
	for _, c := range all {
		if c.Storage == "" || c.Run == "" || !of.Owns(c.Storage) || c.Deleting || c.Expires.After(now) {
			continue
		}
		lost, err := withoutJournal(ctx, store, c.Run)
		if err != nil {
			return nil, failure.Annotate(err, op, c.Namespace)
		}
		if lost {
			out = append(out, c)
		}
	}
	return out, nil
}

// OrphanVolumes lists the volumes that drills of this storage made and that have expired, and of whose drills it has no
// journal. They may outlive their cage.
func OrphanVolumes(ctx context.Context, store objstore.Store, e EBS, now time.Time) ([]ebs.Volume, error) {
	const op = "find expired volumes"
	of, err := storage.Read(ctx, store)
	if err != nil {
		return nil, failure.Annotate(err, op, store.URL())
	}
	all, err := e.AllVolumes(ctx)
	if err != nil {
		return nil, failure.Annotate(err, op, e.Region())
	}
	var out []ebs.Volume
	for _, v := range all {
		run := cluster.RunID(v.Tags[ebs.TagDrill])
		expires, err := time.Parse(time.RFC3339, v.Tags[ebs.TagDrillExpires])
		if run == "" || err != nil || expires.After(now) || !of.Owns(v.Tags[ebs.TagStorage]) ||
			v.State == ebs.VolumeDeleting || v.State == ebs.VolumeDeleted {
			continue
		}
		lost, err := withoutJournal(ctx, store, run)
		if err != nil {
			return nil, failure.Annotate(err, op, string(v.ID))
		}
		if lost {
			out = append(out, v)
		}
	}
	return out, nil
}

// withoutJournal reports whether the storage has no journal of the run, not even one that cannot be read.
func withoutJournal(ctx context.Context, store objstore.Store, run cluster.RunID) (bool, error) {
	_, err := runs.Read(ctx, store, run)
	switch {
	case failure.Is(err, failure.NotFound):
		return true, nil
	case failure.Is(err, failure.Corrupt):
		return false, nil
	}
	return false, err
}
