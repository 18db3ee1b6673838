package restore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// holedPD has one store of two, and the regions that ranges begins with.
type holedPD struct {
	PD
	first []cluster.Region
	err   error
}

func (p *holedPD) Stores(context.Context) ([]pd.Store, error) {
	return []pd.Store{{ID: 1, State: pd.StoreUp}}, nil
}

func (p *holedPD) Regions(_ context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if len(keys.Start) > 0 || string(keys.End) != "\x00" {
		return nil, failure.New(failure.Usage, "", "", "it asked for more than the first region")
	}
	return p.first, p.err
}

// notes keeps the notes of a run.
type notes struct{ texts []string }

func (n *notes) Emit(e phase.Event) {
	if e.Type == phase.Note {
		n.texts = append(n.texts, e.Message)
	}
}

// A store that runs but waits for PD's first region was named without a reason: 3 minutes of "2/3 stores".
func TestAwaitStores_PDHasNoFirstRegion_IsNamedAsThatOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pd    holedPD
		waits bool
	}{
		"a hole before the first region": {holedPD{first: []cluster.Region{{ID: 9, Keys: cluster.KeyRange{Start: []byte("k")}}}}, true},
		"no region at all":               {holedPD{}, true},
		"the first region is there":      {holedPD{first: []cluster.Region{{ID: 1}}}, false},
		"PD is not bootstrapped":         {holedPD{err: failure.New(failure.Unready, "", "", "not bootstrapped")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &notes{}
				r := newRun(Deps{Sink: seen}, Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Timeout: 20 * time.Second}, byRun)
				r.backup.Manifest = &manifest.Manifest{}
				r.backup.Source.Stores = []cluster.Store{{ID: 1}, {ID: 2}}
				r.pd.PD = &c.pd
				err := r.runner.Check(t.Context(), r.awaitStoresStep(phaseTiKV))
				require.ErrorContains(t, err, "stores 2 are not up")
				if !c.waits {
					require.NotContains(t, err.Error(), "bootcluster")
					require.Empty(t, seen.texts)
					return
				}
				require.ErrorContains(t, err, "stores 2 are not up: "+firstRegionText)
				require.Equal(t, []string{"waiting: " + firstRegionText}, seen.texts)
			})
		})
	}
}
