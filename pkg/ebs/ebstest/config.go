package ebstest

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed/fault"
	"github.com/tisnap/tisnap/pkg/testbed/timescale"
)

// Config describes an account in a region. The zero value is us-west-2 with three zones at real speed,
// under QuickRules.
type Config struct {
	Region  string
	Zones   []cluster.Zone
	Account string // 12 digits
	Clock   timescale.Clock
	Faults  *fault.Plan
	Rules   *Rules // nil is QuickRules
	Seed    uint64 // of all random choices
}

// Span is a range of durations from which one is drawn evenly.
type Span struct{ Least, Most time.Duration }

// Bucket is a token bucket: Size calls at once, then Refill a second.
type Bucket struct {
	Size   float64
	Refill float64
}

// Rules are the other side's habits and limits. Durations are virtual. Start from QuickRules or RealRules
// and change what the test is about: a limit of zero allows nothing.
type Rules struct {
	// Latency is how long an action takes to answer; actions that are not named take none.
	Latency map[string]Span
	// Invisible is how long a new id is denied by Describe, CreateTags and Delete.
	Invisible Span
	// Creating is how long a new volume is "creating", Deleting how long a deleted one is "deleting".
	Creating, Deleting Span

	// A snapshot is pending for SnapshotBase + dirty bytes × ByteScale ÷ SnapshotRate.
	SnapshotBase time.Duration
	SnapshotRate float64 // bytes a second
	ByteScale    float64 // real bytes that one byte of the testbed stands for

	// Buckets by action; Paged and Listed are those of Describe calls with and without filter or page.
	Buckets       map[string]Bucket
	Paged, Listed Bucket
	Mutating      Bucket // of mutating actions that are not named

	SnapshotSpacing  time.Duration // between snapshots of one volume
	PendingPerVolume int
	PendingInAccount int
	TagsPerResource  int
	StorageGiB       map[string]int64 // quota by volume type; not named is unlimited
	IOPS             map[string]int64 // quota by volume type; not named is unlimited
}

// limits are EC2's documented defaults.
func limits() Rules {
	usual := Bucket{Size: 100, Refill: 5}
	return Rules{
		ByteScale: 1,
		Buckets: map[string]Bucket{
			"CreateSnapshot": usual, "CreateSnapshots": usual, "CreateVolume": usual,
			"DeleteSnapshot": usual, "DeleteVolume": usual,
			"CreateTags": {Size: 100, Refill: 10}, "TerminateInstances": usual,
		},
		Paged: Bucket{Size: 100, Refill: 20}, Listed: Bucket{Size: 50, Refill: 10},
		Mutating:         Bucket{Size: 50, Refill: 5},
		SnapshotSpacing:  15 * time.Second,
		PendingPerVolume: 5,
		PendingInAccount: 100,
		TagsPerResource:  50,
		StorageGiB:       map[string]int64{"gp3": 50 << 10, "io2": 20 << 10},
		IOPS:             map[string]int64{"io2": 100_000},
	}
}

// QuickRules have EC2's limits but answer at once and copy fast: for tests of one thing at a time.
func QuickRules() *Rules {
	r := limits()
	r.Invisible = Span{0, 2 * time.Second}
	r.Creating = Span{time.Second, 3 * time.Second}
	r.SnapshotBase = 2 * time.Second
	r.SnapshotRate = 1 << 30
	return &r
}

// RealRules answer and copy about as fast as EC2 was seen to.
func RealRules() *Rules {
	r := limits()
	r.Latency = map[string]Span{
		"CreateSnapshots": {800 * time.Millisecond, 2 * time.Second},
		"CreateSnapshot":  {400 * time.Millisecond, time.Second},
		"CreateVolume":    {300 * time.Millisecond, 900 * time.Millisecond},
		"DeleteSnapshot":  {200 * time.Millisecond, 500 * time.Millisecond},
		"DeleteVolume":    {200 * time.Millisecond, 500 * time.Millisecond},

		"DescribeSnapshots": {100 * time.Millisecond, 400 * time.Millisecond},
		"DescribeVolumes":   {100 * time.Millisecond, 400 * time.Millisecond},
		"DescribeInstances": {100 * time.Millisecond, 400 * time.Millisecond},
	}
	r.Invisible = Span{0, 20 * time.Second}
	r.Creating = Span{2 * time.Second, 60 * time.Second}
	r.Deleting = Span{time.Second, 5 * time.Second}
	r.SnapshotBase = 30 * time.Second
	// 3 TB were copied in 14 min 16 s in a user's report: about 3.5 GB/s for one volume, first snapshot.
	r.SnapshotRate = 3.5e9
	return &r
}
