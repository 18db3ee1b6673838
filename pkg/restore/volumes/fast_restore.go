package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Fast snapshot restore needs 60 minutes per TiB to be enabled, and a whole credit for the first volume: it starts with
// none and gains min(10, 1024 GiB ÷ size) per hour.
const (
	optimizeTime = time.Hour // per TiB
	maxCredits   = 10.0      // per hour
	// FastDeadline bounds a step that waits for it.
	FastDeadline = 72 * time.Hour
)

// pair is a snapshot in a zone.
type pair struct {
	snapshot cluster.SnapshotID
	zone     cluster.Zone
}

// firstCredit is the time from enabled to a whole credit for a snapshot of this size.
func firstCredit(sizeGiB int64) time.Duration {
	return time.Duration(float64(time.Hour) / min(maxCredits, 1024/float64(max(sizeGiB, 1))))
}

// Fast is the fast snapshot restore that a run enables while its volumes are made.
type Fast struct {
	ec2   EBS
	owner Owner
	opts  Options

	wanted  []Volume                              // those to enable it for, by Check
	before  map[pair]bool                         // not enabled by this run
	mine    map[cluster.Zone][]cluster.SnapshotID // by this run, until disabled
	earlier *journal.FastRestore
}

// NewFast makes the fast snapshot restore of a run that has enabled none.
func NewFast(ec2 EBS, owner Owner, opts Options) *Fast {
	return &Fast{ec2: ec2, owner: owner, opts: opts}
}

// time bounds the whole wait: twice EC2's documented time for the largest snapshot.
func (f *Fast) time() time.Duration {
	var longest time.Duration
	for _, v := range f.wanted {
		longest = max(longest, time.Duration(float64(optimizeTime)*float64(v.sizeGiB)/1024)+firstCredit(v.sizeGiB))
	}
	return max(2*longest, f.opts.Timeout)
}

// pairs lists the wanted snapshots by zone.
func (f *Fast) pairs() map[cluster.Zone][]cluster.SnapshotID {
	out := map[cluster.Zone][]cluster.SnapshotID{}
	for _, v := range f.wanted {
		out[v.Zone] = append(out[v.Zone], v.Snapshot)
	}
	return out
}

// Adopt takes over what earlier processes of the run enabled, by their journal; nil if they never enabled it. Their
// intent names every pair of snapshot and zone, while a snapshot is restored in one zone.
func (f *Fast) Adopt(earlier *journal.FastRestore) {
	f.earlier, f.mine = earlier, f.ofEarlier(earlier)
}

func (f *Fast) ofEarlier(earlier *journal.FastRestore) map[cluster.Zone][]cluster.SnapshotID {
	if earlier == nil {
		return nil
	}
	asked := map[pair]bool{}
	for _, id := range earlier.Snapshots {
		for _, zone := range earlier.Zones {
			asked[pair{id, zone}] = true
		}
	}
	mine := map[cluster.Zone][]cluster.SnapshotID{}
	for zone, ids := range f.pairs() {
		for _, id := range ids {
			if asked[pair{id, zone}] {
				mine[zone] = append(mine[zone], id)
			}
		}
	}
	return mine
}

// Check finds what would refuse fast snapshot restore of the volumes, before anything is changed. What is already
// enabled, by anyone, stays enabled after the restore. With br it is only for volumes with TiKV's data.
func (f *Fast) Check(ctx context.Context, volumes []Volume, quotas ebs.AccountQuotas) error {
	if !f.opts.FastRestore {
		return nil
	}
	f.wanted = slices.Clone(volumes)
	if f.opts.BR {
		f.wanted = ScopeData.of(f.wanted)
	}
	for _, v := range f.wanted {
		if v.sizeGiB > 16<<10 {
			return failure.New(failure.Usage, "check fast snapshot restore", string(v.Snapshot),
				"it has %d GiB, and 16 TiB is the most", v.sizeGiB).
				WithHint("leave --fsr out")
		}
	}
	known, err := f.ec2.FastRestores(ctx, nil)
	if err != nil {
		return failure.Annotate(err, "read fast snapshot restores", f.ec2.Region())
	}
	f.before = map[pair]bool{}
	used := map[cluster.SnapshotID]bool{}
	for _, k := range known {
		if k.State != ebs.FastRestoreDisabled && k.State != ebs.FastRestoreDisabling {
			f.before[pair{k.Snapshot, k.Zone}] = true
			used[k.Snapshot] = true
		}
	}
	before := len(used)
	for _, v := range f.wanted {
		used[v.Snapshot] = true
	}
	if quotas.FastRestores > 0 && int64(len(used)) > quotas.FastRestores {
		return failure.New(failure.Limited, "check fast snapshot restore", f.ec2.Region(),
			"%d snapshots would be enabled, %d are already, and the quota is %d", len(used)-before, before,
			quotas.FastRestores).
			WithHint("raise the quota of fast snapshot restore in the region, or leave --fsr out").Lasting()
	}
	return nil
}

// Enable requests fast snapshot restore, and waits until every snapshot is enabled and has a whole credit: volumes made
// earlier are not initialized.
func (f *Fast) Enable(ctx context.Context, s *phase.Scope) error {
	mine := f.toEnable()
	f.mine = maps.Clone(mine)
	for zone, ids := range mine {
		// One intent per zone would hide the others from gc: one names every pair of snapshot and zone.
		if err := s.Intent(ctx, journal.IntentFastRestore, fastIntent(mine)); err != nil {
			return err
		}
		if _, err := f.ec2.EnableFastRestore(ctx, ids, []cluster.Zone{zone}); err != nil {
			return failure.Annotate(err, "enable fast snapshot restore", string(zone))
		}
	}
	s.Expect(int64(len(f.wanted)), "snapshots")
	ctx, cancel := context.WithTimeout(ctx, f.time())
	defer cancel()
	seen := map[pair]time.Time{}
	return phase.Poll(ctx, f.opts.Poll, "wait for fast snapshot restore", f.owner.Target.String(),
		func(ctx context.Context) (bool, error) {
			found, err := f.ec2.FastRestores(ctx, f.snapshots())
			if err != nil {
				return false, err
			}
			ready, err := f.ready(found, seen)
			s.Reached(int64(ready))
			return ready == len(f.wanted), err
		})
}

// toEnable returns what is not enabled yet, or was by an earlier process of the run.
func (f *Fast) toEnable() map[cluster.Zone][]cluster.SnapshotID {
	if f.earlier != nil {
		return f.ofEarlier(f.earlier)
	}
	mine := map[cluster.Zone][]cluster.SnapshotID{}
	for zone, ids := range f.pairs() {
		for _, id := range ids {
			if !f.before[pair{id, zone}] {
				mine[zone] = append(mine[zone], id)
			}
		}
	}
	return mine
}

// ready counts the volumes whose snapshots have a credit in the volume's zone.
func (f *Fast) ready(found []ebs.FastRestore, seen map[pair]time.Time) (int, error) {
	state := map[pair]ebs.FastRestore{}
	for _, one := range found {
		state[pair{one.Snapshot, one.Zone}] = one
	}
	ready := 0
	for _, v := range f.wanted {
		p := pair{v.Snapshot, v.Zone}
		at, known := state[p]
		switch {
		case !known || at.State == ebs.FastRestoreEnabling || at.State == ebs.FastRestoreOptimizing:
		case at.State == ebs.FastRestoreEnabled:
			since := at.EnabledAt
			if since.IsZero() {
				if seen[p].IsZero() {
					seen[p] = f.opts.Now()
				}
				since = seen[p]
			}
			if f.opts.Now().Sub(since) >= firstCredit(v.sizeGiB) {
				ready++
			}
		default:
			return ready, failure.New(failure.Corrupt, "enable fast snapshot restore", string(v.Snapshot),
				"in %s it is %s: %s", v.Zone, at.State, at.Reason).
				WithHint("run the restore again, or leave --fsr out")
		}
	}
	return ready, nil
}

func fastIntent(mine map[cluster.Zone][]cluster.SnapshotID) journal.FastRestore {
	var out journal.FastRestore
	for zone, ids := range mine {
		out.Zones = append(out.Zones, zone)
		out.Snapshots = append(out.Snapshots, ids...)
	}
	return out
}

// KeptFast describes fast snapshot restore when the lock is lost.
const KeptFast = "fast snapshot restore is left as it is: another process may continue the run with it; else tisnap " +
	"gc ends it"

// Disable ends the fast snapshot restore that this run enabled, which is billed by the hour.
func (f *Fast) Disable(ctx context.Context, s *phase.Scope) error {
	for zone, ids := range f.mine {
		if err := f.ec2.DisableFastRestore(ctx, ids, []cluster.Zone{zone}); err != nil {
			return failure.Annotate(err, "disable fast snapshot restore", string(zone))
		}
		delete(f.mine, zone)
	}
	s.Result(journal.ResultFastRestoreEnded, nil)
	return nil
}

// End ends fast snapshot restore once the volumes are made. A failure does not waste the hours that it took: the run
// continues, retries at its end, and reports what is left.
func (f *Fast) End(ctx context.Context, s *phase.Scope) error {
	for try := range 5 {
		err := f.Disable(ctx, s)
		if err == nil || f.owner.Runner.Fence().Loss() != nil {
			return err
		}
		s.Warn("fast snapshot restore is still enabled, and billed by AWS: %v", err)
		if wait.For(ctx, f.opts.Poll<<try) != nil {
			break
		}
	}
	return nil //nolint:nilerr // logged above, and retried by EndAtLast
}

// EndAtLast ends what is still enabled at the end of an otherwise successful run. On an error it stays enabled.
func (f *Fast) EndAtLast(ctx context.Context, s *phase.Scope) error {
	if len(f.mine) == 0 {
		return nil
	}
	return f.Disable(ctx, s)
}

func (f *Fast) snapshots() []cluster.SnapshotID {
	ids := make([]cluster.SnapshotID, len(f.wanted))
	for i, v := range f.wanted {
		ids[i] = v.Snapshot
	}
	return ids
}
