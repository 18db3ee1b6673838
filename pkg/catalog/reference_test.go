package catalog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestReference_LatestIsTheNewestSealedBackup(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	prod, dev := cluster.Name{Namespace: "tidb", Name: "prod"}, cluster.Name{Namespace: "tidb", Name: "dev"}
	entry := func(id cluster.BackupID, of cluster.Name, state State, hour int) Entry {
		return Entry{ID: id, Cluster: of, State: state, BackupTS: cluster.MakeTS(noon.Add(time.Duration(hour)*time.Hour), 0)}
	}
	entries := []Entry{
		entry("second", prod, StateSealed, 2), entry("first", prod, StateSealed, 1), entry("torn", prod, StateDamaged, 3),
		entry("gone", prod, StateBroken, 4), entry("working", prod, StateUnsealed, 5), entry("other", dev, StateSealed, 6),
	}
	for name, c := range map[string]struct {
		ref     Reference
		entries []Entry
		want    cluster.BackupID
		kind    failure.Kind
	}{
		"of the only cluster":        {Reference{}, entries[:5], "second", 0},
		"of the given one":           {Reference{Cluster: prod}, entries, "second", 0},
		"before":                     {Reference{Cluster: prod, Before: noon.Add(90 * time.Minute)}, entries, "first", 0},
		"at its very backup time":    {Reference{Cluster: prod, Before: noon.Add(2 * time.Hour)}, entries, "second", 0},
		"of one of two":              {Reference{}, entries, "", failure.Usage},
		"of one of two, before both": {Reference{Before: noon}, entries, "", failure.Usage},
		"before all":                 {Reference{Cluster: prod, Before: noon}, entries, "", failure.NotFound},
		"none sealed":                {Reference{}, entries[2:5], "", failure.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.ref.Choose(c.entries)
			if c.want == "" {
				require.Equal(t, c.kind, failure.KindOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.ID)
		})
	}
	_, err := Reference{}.Choose(entries)
	require.ErrorContains(t, err, "tidb/dev, tidb/prod")
}
