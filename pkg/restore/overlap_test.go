package restore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// While PD comes up the volumes are made; with Serial each step waits for the one before it.
func TestRun_VolumesAreMade_WhileTheClusterComesUp(t *testing.T) {
	t.Parallel()
	for name, serial := range map[string]bool{"overlapping": false, "serial": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			result, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.Serial = serial })
			require.NoError(t, err)
			require.True(t, result.Restored)
			begun, ended := map[string]time.Time{}, map[string]time.Time{}
			overlap := 0.0
			for _, p := range result.Timings {
				overlap += p.OverlapSeconds
				for _, s := range p.Steps {
					begun[s.Name] = s.Start
					ended[s.Name] = s.Start.Add(time.Duration(s.Seconds * float64(time.Second)))
				}
			}
			require.Equal(t, serial, !begun[journal.StepCreateVolumes].Before(ended["await-pd"]), "volumes are made before PD is up")
			require.Equal(t, serial, overlap == 0)
			for _, before := range []string{journal.StepBindVolumes, "mark-recovering", "await-volumes"} {
				require.False(t, begun["start-tikv"].Before(ended[before]), "start-tikv before the end of %s", before)
			}
			require.False(t, begun["thaw"].Before(ended["await-tidb"]))
			require.Equal(t, phase.Done, result.Timings[len(result.Timings)-1].Outcome)
		})
	}
}
