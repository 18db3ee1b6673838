package ebstest

import "time"

// Span is a range of durations from which one is drawn evenly.
type Span struct{ Least, Most time.Duration }

// Bucket is a token bucket: Size calls at once, then Refill a second.
type Bucket struct {
	Size   float64
	Refill float64
}

// Rules are the other side's habits and limits. Durations are virtual. Start from QuickRules or RealRules
// and change what the test is about: a limit of zero allows nothing, unless documented otherwise.
type Rules struct {
	// Latency is how long an action takes to answer; actions that are not named take none.
	Latency map[string]Span
	// Invisible is how long a new id is denied by Describe, CreateTags and Delete.
	Invisible Span
	// Creating is how long a new volume is "creating", Deleting how long a deleted one is "deleting".
	Creating, Deleting Span
	// VanishOneIn makes one of so many accepted volumes disappear when it should become available, its token
	// burned; 0 is none. TokenMemory is how long a client token is known.
	VanishOneIn int
	TokenMemory time.Duration

	// A snapshot is pending for SnapshotBase and the time that its changed data takes. SnapshotRate, in bytes a
	// second, is that of volumes of up to 500 GiB, SnapshotLargeRate that of 1 TiB and more (0: the same);
	// between these sizes it grows evenly.
	SnapshotBase                    time.Duration
	SnapshotRate, SnapshotLargeRate float64
	ByteScale                       float64 // real bytes that one byte of the testbed stands for

	// Buckets by action; Paged and Listed are those of Describe calls with and without filter or page.
	Buckets       map[string]Bucket
	Paged, Listed Bucket
	Mutating      Bucket // of mutating actions that are not named
	// Neighbours are tokens per second that others of the account take from an action's bucket.
	Neighbours map[string]float64

	SnapshotSpacing   time.Duration // between snapshots of one volume
	PendingPerVolume  int
	PendingPerColdOne int // of an st1 or sc1 volume
	PendingInAccount  int
	SnapshotsInRegion int
	VolumesPerSet     int // with the boot volume
	TagsPerResource   int
	StorageGiB        map[string]int64 // quota by volume type; not named is unlimited
	IOPS              map[string]int64 // quota by volume type; not named is unlimited
	// MaxIOPS is the most of one volume, by type, where a zone gives less than the type's newest limit.
	MaxIOPS map[string]int64

	FastRestore    FastRestoreRules
	Initialization InitializationRules
	Modification   ModificationRules

	Copies CopyRules
	Tiers  TierRules
}

// TierRules are those of the archive tier.
type TierRules struct {
	Archivals, Restores int // at one time
	PerVolume           int // archived snapshots
	Archival, Restore   time.Duration
}

// CopyRules are those of CopySnapshot. Rates are in bytes per second.
type CopyRules struct {
	InProgress int     // at one time, into this region
	Rate       float64 // of one standard copy
	// MostRate and PairRate are the most of one time-based copy, and of all from one region into another.
	MostRate, PairRate float64
	Fails              Span // until a copy that cannot be made turns to error
	// NeedSource lets a copy fail whose source is deleted, or no longer shared, on its way. What EC2 does is not documented.
	NeedSource bool
}

// FastRestoreRules are those of fast snapshot restore.
type FastRestoreRules struct {
	Snapshots int           // that may be enabled in the region
	IDsInCall int           // snapshots in one call
	PerTiB    time.Duration // of optimizing
	Switching time.Duration // of enabling before, and of disabling
	// Aged is how long ago a snapshot became enabled, at the moment in which it does: its credits are there at once.
	Aged time.Duration
}

// InitializationRules are those of filling a volume with its snapshot's data.
type InitializationRules struct {
	LeastMiB, MostMiB int64         // rates that can be asked for, MiB/s
	SumMiB            int64         // of all volumes that are filled at such rates at one time
	LazyRate          float64       // bytes per second for volumes without a rate
	Lag               time.Duration // the most by which the reported progress is old
}

// ModificationRules are those of ModifyVolume.
type ModificationRules struct {
	Most      int           // modifications of one volume in any span of Within
	Within    time.Duration // also of failed ones
	Modifying Span          // until the new parameters hold
	PerTiB    time.Duration // of optimizing after that
}

// limits are EC2's documented defaults.
func limits() Rules {
	usual := Bucket{Size: 100, Refill: 5}
	return Rules{
		ByteScale:   1,
		TokenMemory: 12 * time.Hour, // measured by the authors of aws-ebs-csi-driver
		Buckets: map[string]Bucket{
			"CreateSnapshot": usual, "CreateSnapshots": usual, "CreateVolume": usual,
			"DeleteSnapshot": usual, "DeleteVolume": usual,
			"CreateTags": {Size: 100, Refill: 10}, "TerminateInstances": usual, "ModifySnapshotAttribute": usual,
		},
		Paged: Bucket{Size: 100, Refill: 20}, Listed: Bucket{Size: 50, Refill: 10},
		Mutating:          Bucket{Size: 50, Refill: 5},
		SnapshotSpacing:   15 * time.Second,
		PendingPerVolume:  5,
		PendingPerColdOne: 1,
		PendingInAccount:  100,
		SnapshotsInRegion: 100_000,
		VolumesPerSet:     128,
		TagsPerResource:   50,
		StorageGiB:        map[string]int64{"gp3": 50 << 10, "io2": 20 << 10},
		IOPS:              map[string]int64{"io2": 100_000},
		FastRestore:       FastRestoreRules{Snapshots: 5, IDsInCall: 10, PerTiB: time.Hour},
		Initialization:    InitializationRules{LeastMiB: 100, MostMiB: 300, SumMiB: 5000},
		Modification:      ModificationRules{Most: 4, Within: 24 * time.Hour},
		Copies:            CopyRules{InProgress: 20, MostRate: 500 << 20, PairRate: 2000 << 20},
		// A restore takes up to 72 hours; how long an archival takes is a guess.
		Tiers: TierRules{Archivals: 5, Restores: 5, PerVolume: 25, Archival: 24 * time.Hour, Restore: 72 * time.Hour},
	}
}

// QuickRules have EC2's limits but answer at once and copy fast, and no volume vanishes: for tests of one
// thing at a time.
func QuickRules() *Rules {
	r := limits()
	r.Invisible = Span{0, 2 * time.Second}
	r.Creating = Span{time.Second, 3 * time.Second}
	r.SnapshotBase = 2 * time.Second
	r.SnapshotRate = 1 << 30
	r.FastRestore.Switching = time.Second
	r.Initialization.LazyRate = 1 << 30
	r.Modification.Modifying = Span{time.Second, 3 * time.Second}
	r.Modification.PerTiB = time.Minute
	r.Copies.Rate = 1 << 30
	r.Copies.Fails = Span{time.Second, 3 * time.Second}
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
	r.VanishOneIn = 1000
	r.SnapshotBase, r.SnapshotRate, r.SnapshotLargeRate = publishedBase, publishedRate, publishedLargeRate
	r.FastRestore.Switching = 10 * time.Second
	r.Initialization.LazyRate = 50 << 20 // a guess: EC2 promises no rate for these
	r.Initialization.Lag = 5 * time.Minute
	r.Modification.Modifying = Span{5 * time.Second, 60 * time.Second}
	r.Modification.PerTiB = 6 * time.Hour // "up to 24 hours"; a 1 TiB volume of the user guide takes 6
	r.Copies.Rate = 500 << 20             // a guess: EC2 promises no rate for these
	r.Copies.Fails = Span{10 * time.Second, 5 * time.Minute}
	return &r
}
