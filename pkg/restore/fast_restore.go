package restore

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

// Fast snapshot restore takes 60 minutes a TiB to get ready, and gives the first volume when it has a whole
// credit: it starts with none and gains min(10, 1024 GiB ÷ size) of them in an hour.
const (
	optimizeTime = time.Hour // a TiB
	maxCredits   = 10.0      // an hour
	fastDeadline = 72 * time.Hour
)

// pair is a snapshot in a zone.
type pair struct {
	snapshot cluster.SnapshotID
	zone     cluster.Zone
}

// firstCredit is how long after it became enabled a snapshot of this size has a whole credit.
func firstCredit(sizeGiB int64) time.Duration {
	return time.Duration(float64(time.Hour) / min(maxCredits, 1024/float64(max(sizeGiB, 1))))
}

// fastTime bounds the whole wait: twice what EC2 documents, for the largest snapshot.
func (r *run) fastTime() time.Duration {
	var longest time.Duration
	for _, v := range r.fastVolumes() {
		size := r.snapshotSize(v.Snapshot)
		longest = max(longest, time.Duration(float64(optimizeTime)*float64(size)/1024)+firstCredit(size))
	}
	return max(2*longest, r.opts.Timeout)
}

func (r *run) snapshotSize(id cluster.SnapshotID) int64 {
	for _, s := range r.manifest.Snapshots {
		if s.ID == id {
			return s.SizeGiB
		}
	}
	return 0
}

// fastVolumes are those that fast snapshot restore is for: all, or those with TiKV's data where br's words hold, which
// asks for no others.
func (r *run) fastVolumes() []Volume {
	if !r.externalBinder {
		return r.volumes
	}
	return ScopeData.of(slices.Clone(r.volumes))
}

// fastPairs lists which snapshot is wanted in which zone, by zone.
func (r *run) fastPairs() map[cluster.Zone][]cluster.SnapshotID {
	out := map[cluster.Zone][]cluster.SnapshotID{}
	for _, v := range r.fastVolumes() {
		out[v.Zone] = append(out[v.Zone], v.Snapshot)
	}
	return out
}

// checkFast finds what would refuse fast snapshot restore, before anything is changed. What is enabled
// already, by anyone, stays when the restore is over.
func (r *run) checkFast(ctx context.Context, quotas ebs.AccountQuotas) error {
	if !r.opts.FastRestore {
		return nil
	}
	for _, v := range r.fastVolumes() {
		if size := r.snapshotSize(v.Snapshot); size > 16<<10 {
			return failure.New(failure.Usage, "check fast snapshot restore", string(v.Snapshot), "it has %d GiB, and 16 TiB is the most", size).
				WithHint("leave --fsr out")
		}
	}
	known, err := r.EBS.FastRestores(ctx, nil)
	if err != nil {
		return failure.Annotate(err, "read fast snapshot restores", r.EBS.Region())
	}
	r.fastBefore = map[pair]bool{}
	used := map[cluster.SnapshotID]bool{}
	for _, f := range known {
		if f.State != ebs.FastRestoreDisabled && f.State != ebs.FastRestoreDisabling {
			r.fastBefore[pair{f.Snapshot, f.Zone}] = true
			used[f.Snapshot] = true
		}
	}
	before := len(used)
	for _, v := range r.fastVolumes() {
		used[v.Snapshot] = true
	}
	if quotas.FastRestores > 0 && int64(len(used)) > quotas.FastRestores {
		return failure.New(failure.Limited, "check fast snapshot restore", r.EBS.Region(),
			"%d snapshots would be enabled, %d are already, and the quota is %d", len(used)-before, before, quotas.FastRestores).
			WithHint("raise the quota of fast snapshot restore in the region, or leave --fsr out").Lasting()
	}
	return nil
}

// enableFast asks for fast snapshot restore, and waits until every snapshot is enabled and has a whole credit: a volume made
// before is as cold as any.
func (r *run) enableFast(ctx context.Context, s *phase.Scope) error {
	mine := r.toEnable()
	r.fastMine = maps.Clone(mine)
	for zone, ids := range mine {
		// One intent for each zone would hide the others from gc: it names them all, each with each.
		if err := s.Intent(ctx, journal.IntentFastRestore, fastIntent(mine)); err != nil {
			return err
		}
		if _, err := r.EBS.EnableFastRestore(ctx, ids, []cluster.Zone{zone}); err != nil {
			return failure.Annotate(err, "enable fast snapshot restore", string(zone))
		}
	}
	s.Expect(int64(len(r.fastVolumes())), "snapshots")
	ctx, cancel := context.WithTimeout(ctx, r.fastTime())
	defer cancel()
	seen := map[pair]time.Time{}
	return poll(ctx, "wait for fast snapshot restore", r.opts.Target.String(), func(ctx context.Context) (bool, error) {
		ids := r.manifest.SnapshotIDs()
		found, err := r.EBS.FastRestores(ctx, ids)
		if err != nil {
			return false, err
		}
		ready, err := r.fastReady(found, seen)
		s.Reached(int64(ready))
		return ready == len(r.fastVolumes()), err
	})
}

// toEnable is what nobody has enabled yet, or an earlier process of the run has.
func (r *run) toEnable() map[cluster.Zone][]cluster.SnapshotID {
	if r.earlier.Fast != nil {
		return r.earlierFast()
	}
	mine := map[cluster.Zone][]cluster.SnapshotID{}
	for zone, ids := range r.fastPairs() {
		for _, id := range ids {
			if !r.fastBefore[pair{id, zone}] {
				mine[zone] = append(mine[zone], id)
			}
		}
	}
	return mine
}

// fastReady counts the volumes whose snapshot has a credit in the volume's zone.
func (r *run) fastReady(found []ebs.FastRestore, seen map[pair]time.Time) (int, error) {
	state := map[pair]ebs.FastRestore{}
	for _, f := range found {
		state[pair{f.Snapshot, f.Zone}] = f
	}
	ready := 0
	for _, v := range r.fastVolumes() {
		p := pair{v.Snapshot, v.Zone}
		f, known := state[p]
		switch {
		case !known || f.State == ebs.FastRestoreEnabling || f.State == ebs.FastRestoreOptimizing:
		case f.State == ebs.FastRestoreEnabled:
			since := f.EnabledAt
			if since.IsZero() {
				if seen[p].IsZero() {
					seen[p] = r.opts.Now()
				}
				since = seen[p]
			}
			if r.opts.Now().Sub(since) >= firstCredit(r.snapshotSize(v.Snapshot)) {
				ready++
			}
		default:
			return ready, failure.New(failure.Corrupt, "enable fast snapshot restore", string(v.Snapshot), "in %s it is %s: %s", v.Zone, f.State, f.Reason).
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

// keptFast is what is said when the lock is lost.
const keptFast = "fast snapshot restore is left as it is: another process may continue the run with it; else tisnap gc ends it"

// disableFast ends the fast snapshot restore that this run enabled: it is billed by the hour.
func (r *run) disableFast(ctx context.Context, s *phase.Scope) error {
	for zone, ids := range r.fastMine {
		if err := r.EBS.DisableFastRestore(ctx, ids, []cluster.Zone{zone}); err != nil {
			return failure.Annotate(err, "disable fast snapshot restore", string(zone))
		}
		delete(r.fastMine, zone)
	}
	s.Result(journal.ResultFastRestoreEnded, nil)
	return nil
}

// endFast ends fast snapshot restore once the volumes are made. The hours that it took are not thrown away because the
// end of it failed: the run continues, retries at its end, and says what is left.
func (r *run) endFast(ctx context.Context, s *phase.Scope) error {
	for try := range 5 {
		err := r.disableFast(ctx, s)
		if err == nil || r.runner.Fence().Loss() != nil {
			return err
		}
		s.Warn("fast snapshot restore is still enabled, and billed by AWS: %v", err)
		if wait.For(ctx, pollInterval<<try) != nil {
			break
		}
	}
	return nil //nolint:nilerr // logged above, and retried by lastFast
}

// lastFast ends what is still enabled at the end of a run that succeeded otherwise.
func (r *run) lastFast(ctx context.Context, s *phase.Scope) error {
	if len(r.fastMine) == 0 {
		return nil
	}
	if err := r.disableFast(ctx, s); err != nil {
		r.leave("fast snapshot restore is still enabled and billed by AWS by the hour, end it with `tisnap gc`: %v", err)
	}
	return nil
}
