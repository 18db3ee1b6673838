package snapshot

import (
	"bytes"
	"context"
	"errors"

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
// 1,000 blocks per second that EBS takes.
const puts = 64

// Describer reads how snapshots stand.
type Describer interface {
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
}

// ErrAbandoned is of a snapshot that EBS gave up, since it got no block for too long: only another one helps, by
// another token.
var ErrAbandoned = errors.New("it is in state error, as a snapshot is that got no block for too long")

// Task is a snapshot to make of an archived volume.
type Task struct {
	Volume format.Volume
	// Snapshot describes it. Its token makes Restore repeatable.
	Snapshot ebsdirect.NewSnapshot
	// Put returns how many of the volume's segments an earlier process is known to have put on the snapshot; nil is
	// none.
	Put func(cluster.SnapshotID) int
	// HasPut is called when all blocks of one more segment are on it, n in all; nil is not.
	HasPut func(id cluster.SnapshotID, n int)
	// Reads is that of volume.Restore.
	Reads int
	// Wrote is called concurrently with numbers of bytes that were put.
	Wrote func(bytes int64)
}

// Restore makes the snapshot of an archived volume: after a kill at any point the same call finishes the same snapshot.
// EBS has then accepted all blocks by their number and checksum, and completes the snapshot some time later. An
// abandoned snapshot is ErrAbandoned.
func Restore(
	ctx context.Context, e ebsdirect.Target, ec2 Describer, r *repository.Repository, task Task,
) (cluster.SnapshotID, error) {
	target, err := Start(ctx, e, task.Volume, task.Snapshot)
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
			task.Wrote(task.Volume.Counts.Saved * volume.BlockSize)
			return target.ID, nil // EBS completes nothing whose checksum is another
		case ebs.SnapshotError:
			return target.ID, failure.New(failure.Conflict, "write snapshot", string(target.ID), "%w", ErrAbandoned).
				WithHint("delete it, and restore by another --run-id")
		default: // it takes blocks, or the next call reports why not
		}
	}
	refused := write(ctx, r, task, target)
	if refused != nil && !failure.Is(refused, failure.Usage) && !failure.Is(refused, failure.Conflict) {
		return target.ID, refused
	}
	// A snapshot that takes no blocks may be one that an earlier process has completed; then EBS agrees.
	if err := target.Complete(ctx, task.Volume); err != nil {
		if refused != nil {
			return target.ID, refused
		}
		return target.ID, err
	}
	return target.ID, nil
}

// write puts all blocks that may be missing, many at a time.
func write(ctx context.Context, r *repository.Repository, task Task, target *Target) error {
	putting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &writer{ended: func() error { return context.Cause(putting) }}
	w.put = func(index int64, block []byte, digest format.Digest) error {
		err := target.Write(putting, index, block, digest)
		if err != nil {
			cancel(err)
			return err
		}
		task.Wrote(int64(len(block)))
		return nil
	}
	w.group.SetLimit(puts)
	segments := volume.Segments{
		Skipped: func(blocks int64) { task.Wrote(blocks * volume.BlockSize) },
		Written: func(n int) error {
			if err := w.group.Wait(); err != nil {
				return err
			}
			if task.HasPut != nil {
				task.HasPut(target.ID, n)
			}
			return nil
		},
	}
	if task.Put != nil {
		segments.Skip = task.Put(target.ID)
	}
	err := volume.RestoreFrom(putting, r, task.Volume, w, task.Reads, segments)
	if failed := w.group.Wait(); failed != nil {
		return failed // which ended the reading, too
	}
	return err
}

// writer puts each block in a goroutine of its own, as soon as there is room.
type writer struct {
	group errgroup.Group
	put   func(index int64, block []byte, digest format.Digest) error
	ended func() error // why no more blocks are put, or nil: the first that failed ends it
}

func (w *writer) Write(_ context.Context, index int64, block []byte, digest format.Digest) error {
	if err := w.ended(); err != nil {
		return err
	}
	own := bytes.Clone(block) // it is valid until Write returns
	w.group.Go(func() error { return w.put(index, own, digest) })
	return nil
}
