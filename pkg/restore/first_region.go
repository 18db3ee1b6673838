package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// firstRegionText is why a running store may not be in PD. In recovery mode TiKV asks at its start for PD's region of
// the first key, 60 times every 3 s (bootcluster in its components/snap_recovery). There is none while regions with a
// single voter, which elect themselves, have displaced the one that PD was bootstrapped with.
const firstRegionText = "PD has no region at the first key yet, for which TiKV waits as it starts (bootcluster), up " +
	"to 3 minutes"

// firstRegion reports whether stores that start now wait for PD's first region. It checks every few seconds.
type firstRegion struct {
	r       *run
	asked   time.Time
	missing bool
}

// reason returns firstRegionText while they do, else ""; the first time is noted.
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

// ask reports whether PD is bootstrapped and has no region at the first key; unknown if it does not answer.
func (f *firstRegion) ask(ctx context.Context, unknown bool) bool {
	first, err := f.r.pd.Regions(ctx, cluster.KeyRange{End: []byte{0}})
	switch {
	case failure.Is(err, failure.Unready): // not bootstrapped: the first store to start does that
		return false
	case err != nil:
		return unknown
	}
	return len(first) == 0 || len(first[0].Keys.Start) > 0
}
