package ebstest

import (
	"cmp"
	"time"
)

// How long a snapshot is pending, fitted to the backup times that PingCAP publishes for EBS volume
// snapshots: 50 GB in 20 min … 1,024 GB in 350 min. It is a fit and explains nothing: the rates that the
// table implies are between 33 and 56 MB/s, larger on larger volumes. The terabytes of a live cluster that
// were seen to take a quarter of an hour are incremental copies.
const (
	publishedBase      = 30 * time.Second
	publishedRate      = 36.5e6
	publishedLargeRate = 52e6
)

// SnapshotDuration is how long a snapshot of a volume is pending, so much of whose data has changed since
// the snapshot before.
func (r *Rules) SnapshotDuration(changedBytes, volumeGiB int64) time.Duration {
	const small, large = 500, 1024
	share := min(1, max(0, float64(volumeGiB-small)/(large-small)))
	rate := r.SnapshotRate + share*(cmp.Or(r.SnapshotLargeRate, r.SnapshotRate)-r.SnapshotRate)
	return r.SnapshotBase + time.Duration(float64(changedBytes)*r.ByteScale/max(rate, 1)*float64(time.Second))
}
