package ebs

import (
	"context"
	"slices"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// EpochTag is the value of TagEpoch.
func EpochTag(epoch int64) string { return strconv.FormatInt(epoch, 10) }

// Epoch is the value of TagEpoch; 0 where there is none, as in what older versions made.
func (t Tags) Epoch() int64 {
	epoch, err := strconv.ParseInt(t[TagEpoch], 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}

// MadeLater returns a Conflict if a process of the run with a higher epoch requested the resource with these tags, or
// has taken it over: that process has had the lock since, and owns the resource.
func (t Tags) MadeLater(op string, run cluster.RunID, resource string, epoch int64) error {
	if t.Epoch() <= epoch {
		return nil
	}
	return failure.New(failure.Conflict, op, "run "+string(run),
		"%s is another process's, which has had the lock since: its epoch is %d, and this one's %d",
		resource, t.Epoch(), epoch)
}

// retaggedAtOnce is how many resources one request is for: EC2 takes 1,000, and recommends fewer.
const retaggedAtOnce = 100

// Retag sets this process's epoch on resources that an earlier process of the run requested: should that process wake
// up in the middle of its undo, it no longer owns them. After an error some may keep the old epoch, and only the lock
// protects them from that process.
func Retag[ID ~string](ctx context.Context, t Tagger, resources []ID, epoch int64) error {
	for some := range slices.Chunk(resources, retaggedAtOnce) {
		names := make([]string, len(some))
		for i, id := range some {
			names[i] = string(id)
		}
		if err := t.PutTags(ctx, names, Tags{TagEpoch: EpochTag(epoch)}); err != nil {
			return err
		}
	}
	return nil
}
