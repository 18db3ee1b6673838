package volumes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestContradictions_EC2sFactsAgainstTheManifest(t *testing.T) {
	t.Parallel()
	cut := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	m := &manifest.Manifest{ID: "b", BackupTS: cluster.TS(uint64(cut.Add(-time.Second).UnixMilli()) << 18)}
	want := manifest.Snapshot{ID: "snap-1", Store: 4, Volume: "vol-1", StartedAt: cut}
	for name, row := range map[string]struct {
		change        func(*ebs.Snapshot)
		contradiction string // "" is no contradiction
	}{
		"as in the manifest":         {func(*ebs.Snapshot) {}, ""},
		"no tags":                    {func(s *ebs.Snapshot) { s.Tags = nil }, ""},
		"of another volume":          {func(s *ebs.Snapshot) { s.Volume = "vol-2" }, "snap-1 is of volume vol-2, and of vol-1 by the manifest"},
		"of another store":           {func(s *ebs.Snapshot) { s.Tags[ebs.TagStore] = "5" }, "snap-1 has the tag tisnap.io/store=5, and 4 by the manifest"},
		"of another backup":          {func(s *ebs.Snapshot) { s.Tags[ebs.TagBackup] = "a" }, "snap-1 has the tag tisnap.io/backup=a, and b by the manifest"},
		"of another time":            {func(s *ebs.Snapshot) { s.StartedAt = cut.Add(time.Minute) }, "snap-1 started at 2026-11-21T10:01:00Z, and at 2026-11-21T10:00:00Z by the manifest"},
		"EC2 omits the time":         {func(s *ebs.Snapshot) { s.StartedAt = time.Time{} }, ""},
		"rounded to the next second": {func(s *ebs.Snapshot) { s.StartedAt = cut.Add(time.Second) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ebs.Snapshot{ID: "snap-1", Volume: "vol-1", StartedAt: cut, Tags: ebs.Tags{ebs.TagStore: "4", ebs.TagBackup: "b"}}
			row.change(&got)
			if row.contradiction == "" {
				require.Empty(t, contradictions(m, want, got))
				return
			}
			require.Equal(t, []string{row.contradiction}, contradictions(m, want, got))
		})
	}
	t.Run("before the backup ts", func(t *testing.T) {
		t.Parallel()
		older := want
		older.StartedAt = cut.Add(-time.Hour)
		found := contradictions(m, older, ebs.Snapshot{ID: "snap-1", Volume: "vol-1", StartedAt: older.StartedAt})
		require.Len(t, found, 1)
		require.Contains(t, found[0], "before the backup ts")
	})
}
