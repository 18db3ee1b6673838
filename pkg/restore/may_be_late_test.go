package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// What was made until TiKV starts is found again by the journal alone, so nothing of it is made without its record. Once
// its stores are to be read a run continues without: a storage that is away must not undo hours.
func TestSteps_OnceTheStoresAreRead_MayBeLate(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{}, Options{FastRestore: true, After: cluster.VolumeSpec{Type: "gp3"}}, byRun)
	for name, c := range map[string]struct {
		steps []phase.Step
		from  string
	}{
		"restore":          {r.restoreSteps(), stepCollect},
		"resolve":          {r.resolveSteps(), "raise-ts"},
		"resolve the data": {r.dataSteps(), "raise-ts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := false
			for _, s := range c.steps {
				late = late || s.Name == c.from
				if s.Name != "unlock" {
					require.Equal(t, late, s.Record.MayBeLate, s.Name)
				}
			}
			require.True(t, late)
		})
	}
}
