package snapshot

import (
	"context"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Target is a snapshot that is being written.
type Target struct {
	ebs ebsdirect.Target
	// ID is the snapshot's. It is pending until Complete.
	ID cluster.SnapshotID
}

// Start makes a pending snapshot for an archived volume, or finds the one that an earlier process made by the same
// description. Its parent, if any, is left out: then blocks that are zeros in the archive would be the parent's.
func Start(ctx context.Context, e ebsdirect.Target, v format.Volume, want ebsdirect.NewSnapshot) (*Target, error) {
	const gib = 1 << 30
	if v.Size <= 0 || v.Size%gib != 0 {
		return nil, failure.New(failure.Usage, "start snapshot", v.Role, "a volume of %d bytes is not of whole GiB",
			v.Size).WithHint("write it to a file or device, by `tisnap archive cat` or `fill`")
	}
	want.SizeGiB, want.Parent = v.Size/gib, ""
	id, err := e.Start(ctx, want)
	return &Target{ebs: e, ID: id}, err
}

// Write implements volume.Target. EBS checks the digest.
func (t *Target) Write(ctx context.Context, index int64, data []byte, digest format.Digest) error {
	return t.ebs.Put(ctx, t.ID, index, data, ebsdirect.Sum(digest))
}

// Complete ends the snapshot, all of whose blocks were written. EBS refuses it if what it got is not all of the volume.
func (t *Target) Complete(ctx context.Context, v format.Volume) error {
	return t.ebs.Complete(ctx, t.ID, v.Counts.Saved, ebsdirect.Sum(v.Checksum))
}

var (
	_ volume.Source = (*Source)(nil)
	_ volume.Target = (*Target)(nil)
)
