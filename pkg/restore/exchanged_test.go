package restore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
	"github.com/tisnap/tisnap/pkg/restore"
)

// Two stores' snapshots were exchanged in a manifest, and it was sealed again: EC2 knows of which volumes they are.
func TestRun_SnapshotsExchangedInTheManifest_IsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	exchange(t, l)
	_, err := l.restore(within(t), t, nil, nil)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "by the manifest")
	l.nothingLeft(t)

	// A key shows it without EC2.
	key, err := manifest.ParseVerifyKey(manifesttest.PublicKey)
	require.NoError(t, err)
	_, err = l.restore(within(t), t, nil, func(o *restore.Options) { o.VerifyKey = key })
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it is not signed, and a signature by key "+key.ID()+" is demanded")
	l.nothingLeft(t)
}

// exchange exchanges the snapshots of two stores in the manifest, and seals it again.
func exchange(t *testing.T, l *lab) {
	t.Helper()
	c := catalog.Catalog{Store: l.store}
	m, err := c.Load(t.Context(), "b")
	require.NoError(t, err)
	first, second := m.SnapshotsOf(m.Source.Stores[0].ID), m.SnapshotsOf(m.Source.Stores[1].ID)
	require.NotEmpty(t, first)
	for i := range m.Snapshots {
		switch m.Snapshots[i].ID {
		case first[0].ID:
			m.Snapshots[i].ID = second[0].ID
		case second[0].ID:
			m.Snapshots[i].ID = first[0].ID
		}
	}
	seal(t, l, m)
}

// seal puts a manifest and its seal in the place of the sealed one.
func seal(t *testing.T, l *lab, m *manifest.Manifest) {
	t.Helper()
	body, err := manifest.Encode(m)
	require.NoError(t, err)
	sealAs(t, l, m.ID, body)
}
