package snapshot

import (
	"bytes"
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// puts is how many blocks of one snapshot are on their way at the same time: 32 MiB, and with answers within 60 ms the
// 1,000 blocks a second that EBS takes.
const puts = 64

// Describer reads how snapshots stand.
type Describer interface {
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
}

// Restore makes a snapshot of an archived volume by this description, whose token makes it repeatable: after a kill at
// any point the same call finishes the same snapshot. EBS has then accepted all blocks by their number and checksum,
// and completes the snapshot some time later. reads is that of volume.Restore; wrote is called concurrently with
// numbers of bytes that were put.
func Restore(
	ctx context.Context, e ebsdirect.Target, ec2 Describer, r *repository.Repository, v format.Volume,
	want ebsdirect.NewSnapshot, reads int, wrote func(bytes int64),
) (cluster.SnapshotID, error) {
	target, err := Start(ctx, e, v, want)
	if err != nil {
		return "", err
	}
	found, err := ec2.DescribeSnapshots(ctx, []cluster.SnapshotID{target.ID}) // a new one may not be visible yet
	if err != nil {
		return target.ID, err
	}
	for _, s := range found {
		switch s.State {
		case ebs.SnapshotCompleted:
			wrote(v.Counts.Saved * volume.BlockSize)
			return target.ID, nil // EBS completes nothing whose checksum is another
		case ebs.SnapshotError:
			return target.ID, failure.New(failure.Conflict, "write snapshot", string(target.ID),
				"it is in state error, as a snapshot is that got no block for too long").
				WithHint("delete it, and restore by another --run-id")
		}
	}
	refused := write(ctx, r, v, target, reads, wrote)
	if refused != nil && !failure.Is(refused, failure.Usage) && !failure.Is(refused, failure.Conflict) {
		return target.ID, refused
	}
	// A snapshot that takes no blocks may be one that an earlier process has completed; then EBS agrees.
	if err := target.Complete(ctx, v); err != nil {
		if refused != nil {
			return target.ID, refused
		}
		return target.ID, err
	}
	return target.ID, nil
}

// write puts all blocks, many at a time.
func write(
	ctx context.Context, r *repository.Repository, v format.Volume, target *Target, reads int, wrote func(bytes int64),
) error {
	group, putting := errgroup.WithContext(ctx)
	group.SetLimit(puts)
	err := volume.Restore(putting, r, v, &writer{target, group, putting, wrote}, reads)
	if failed := group.Wait(); failed != nil {
		return failed // which ended the reading, too
	}
	return err
}

// writer puts each block in a goroutine of its own, as soon as there is room.
type writer struct {
	target *Target
	group  *errgroup.Group
	ctx    context.Context //nolint:containedctx // ends with the first block that fails
	wrote  func(bytes int64)
}

func (w *writer) Write(_ context.Context, index int64, block []byte, digest format.Digest) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	own := bytes.Clone(block) // it is valid until Write returns
	w.group.Go(func() error {
		if err := w.target.Write(w.ctx, index, own, digest); err != nil {
			return err
		}
		w.wrote(int64(len(own)))
		return nil
	})
	return nil
}
