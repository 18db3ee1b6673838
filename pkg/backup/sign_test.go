package backup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
)

func TestRun_SignKey_SealsWithASignature(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	o.SignKey = manifesttest.SigningKey(t)
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	m, err := catalog.Catalog{Store: r.store, VerifyKey: o.SignKey.VerifyKey()}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	require.Len(t, m.Snapshots, 6)
}

// A run that began with a key is not continued without it: it would end with an unsigned backup.
func TestRequest_SignKey_IsPartOfIt(t *testing.T) {
	t.Parallel()
	about := func(o backup.Options) *journal.About {
		return &journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b", Request: o.Request()}
	}
	signed, unsigned := about(backup.Options{SignKey: manifesttest.SigningKey(t)}), about(backup.Options{})
	require.NoError(t, signed.SameRequest("r", signed))
	for name, test := range map[string]struct{ was, is *journal.About }{"without": {signed, unsigned}, "only now": {unsigned, signed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.was.SameRequest("r", test.is)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "--sign-key is")
		})
	}
	older := about(backup.Options{})
	delete(older.Request, "sign-key")
	require.NoError(t, older.SameRequest("r", unsigned), "a run of a tisnap without signatures had none")
}
