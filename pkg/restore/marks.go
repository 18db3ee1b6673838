package restore

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// FlashbackPolicy is which regions are flashed back.
type FlashbackPolicy string

// The policies. FlashbackAuto skips regions that are proven unchanged since the backup ts.
const (
	FlashbackAuto FlashbackPolicy = "auto"
	FlashbackAll  FlashbackPolicy = "all"
)

// FlashbackPolicies lists the policies, the default first.
func FlashbackPolicies() []string { return []string{string(FlashbackAuto), string(FlashbackAll)} }

// MarkedShare is the share of the regions, 0 to 1, that a restore with these options can skip if they are unchanged, by
// the manifest: what the target's stores and TiDB servers allow is only known once they run.
func MarkedShare(m *manifest.Manifest, opts Options) float64 {
	switch {
	case m.Marks == nil, opts.Flashback == FlashbackAll, len(opts.TolerateStores) > 0:
		return 0
	case m.BackupTS < marks.After(m.Marks.TS), !marks.Supported(m.Source.Version):
		return 0
	}
	return m.Marks.Share()
}

func (r *run) markedShare() float64 {
	if r.target.existing {
		return 0
	}
	return MarkedShare(r.backup.Manifest, r.opts)
}

// loadMarks reads the backup's marks if they may be used; otherwise, which is not an error, every region is flashed
// back.
func (r *run) loadMarks(ctx context.Context, s *phase.Scope) *marks.Set {
	ref := r.backup.Marks
	switch {
	case ref == nil || r.opts.Flashback == FlashbackAll:
		return nil
	case len(r.opts.TolerateStores) > 0:
		s.Note("flashing back every region: writes on the excluded stores are unknown")
		return nil
	case r.backup.BackupTS < marks.After(ref.TS):
		s.Warn("flashing back every region: the backup ts is not %s above the marks' ts %s", marks.Margin, ref.TS)
		return nil
	}
	if why := r.target.mayHaveTiDB(ctx); why != "" {
		s.Note("flashing back every region: %s", why)
		return nil
	}
	if version := r.unknownVersion(ctx); version != "" {
		s.Note("flashing back every region: TiKV %s is not supported for marks", version)
		return nil
	}
	set, err := r.catalog().Marks(ctx, r.backup.Manifest)
	if err == nil && set.Len() != ref.Regions {
		err = failure.New(failure.Corrupt, "read marks", string(r.backup.ID), "there are %d, sealed were %d", set.Len(),
			ref.Regions)
	}
	if err != nil {
		s.Warn("flashing back every region: the backup's marks cannot be used: %v", err)
		return nil
	}
	return set
}

// unknownVersion returns the TiKV version, of the backup or of a restored store, that is not supported for marks; "" if
// all are supported.
func (r *run) unknownVersion(ctx context.Context) string {
	if v := r.backup.Source.Version; !marks.Supported(v) {
		return v
	}
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		return "of the restored stores"
	}
	for _, st := range stores {
		if st.IsTiKV() && st.State != pd.StoreTombstone && !marks.Supported(st.Version) {
			return st.Version
		}
	}
	return ""
}

// mayHaveTiDB returns why a TiDB may run while data is resolved; "" if none does. TiDB Operator starts it as soon as
// one store is up, even in recovery mode. A flashback removes its writes, but in a skipped region they would stay, and
// of a transaction over both kinds only half would be left.
func (t *target) mayHaveTiDB(ctx context.Context) string {
	if t.kube == nil {
		return "TiDB Operator may have started TiDB already, which could write to regions that are left alone"
	}
	tc, err := t.cluster(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("could not determine whether TiDB already runs: %v", err)
	case tc.TiDBReplicas > 0:
		return fmt.Sprintf("the cluster was not made by a restore and has %d TiDB servers, which could write to "+
			"regions that are left alone", tc.TiDBReplicas)
	}
	pods, err := t.kube.TiDBPods(ctx, t.opts.Target)
	switch {
	case err != nil:
		return fmt.Sprintf("could not determine whether TiDB already runs: %v", err)
	case len(pods) > 0: // perhaps scaled to none a moment ago
		return fmt.Sprintf("TiDB pod %s has not ended, and could write to regions that are left alone", pods[0])
	}
	return ""
}
