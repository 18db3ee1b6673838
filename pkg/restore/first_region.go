package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// firstRegionText is why a store may run and still not be in PD. In recovery mode TiKV asks for PD's region of the
// first key as it starts, 60 times each 3 s (bootcluster in its components/snap_recovery). There is none while regions
// with a single voter, which elect themselves, have displaced the one that PD was bootstrapped with.
const firstRegionText = "PD has no region at the first key yet, for which TiKV waits as it starts (bootcluster), up " +
	"to 3 minutes"

// firstRegion says whether stores that start now wait for PD's first region. It asks every few seconds.
type firstRegion struct {
	r       *run
	asked   time.Time
	missing bool
}

// reason is firstRegionText while it is so, and "" otherwise; the first time is noted.
func (f *firstRegion) reason(ctx context.Context, s *phase.Scope) string {
	if time.Since(f.asked) >= explainInterval {
		f.asked = time.Now()
		before := f.missing
		f.missing = f.ask(ctx, f.missing)
		if f.missing && !before {
			s.Note("waiting: %s", firstRegionText)
		}
	}
	if !f.missing {
		return ""
	}
	return firstRegionText
}

// ask is whether PD is bootstrapped and has no region at the first key; unknown if it does not answer.
func (f *firstRegion) ask(ctx context.Context, unknown bool) bool {
	first, err := f.r.pd.Regions(ctx, cluster.KeyRange{End: []byte{0}})
	switch {
	case failure.Is(err, failure.Unready): // not bootstrapped: the first store that starts does that
		return false
	case err != nil:
		return unknown
	}
	return len(first) == 0 || len(first[0].Keys.Start) > 0
}
