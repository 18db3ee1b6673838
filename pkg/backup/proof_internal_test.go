package backup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// Whatever the steps before them report: what is not proven is not recorded, and not sealed.
func TestRecordAndSeal_CutIsNotProven_AreCorrupt(t *testing.T) {
	t.Parallel()
	sets := map[cluster.StoreID][]cutSnapshot{1: {{ID: "snap-1"}}}
	for name, p := range map[string]proof{
		"nothing":                     {},
		"another backup ts":           {Source: &preflight.Source{}, BackupTS: 6, Sets: sets},
		"without what was cut":        {Source: &preflight.Source{}, BackupTS: 7},
		"without what it was cut of":  {BackupTS: 7, Sets: sets},
		"without a backup ts, as all": {Source: &preflight.Source{}, Sets: sets},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{}, Options{Backup: "b"})
			r.at.proof, r.at.backupTS = p, 7
			if p.Source != nil && p.BackupTS == 0 {
				r.at.backupTS = 0
			}
			require.Equal(t, failure.Corrupt, failure.KindOf(r.record(t.Context(), nil)))
			r.records.drafted(&manifest.Manifest{BackupTS: r.at.backupTS})
			require.Equal(t, failure.Corrupt, failure.KindOf(r.seal(t.Context(), nil)))
			require.False(t, r.records.sealed)
		})
	}
}
