package pd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestImportTasks_AreThoseThatRegistered(t *testing.T) {
	t.Parallel()
	plan := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: plan}, 1)
	c := open(t, s.URLs()...)
	tasks, err := c.ImportTasks(t.Context())
	require.NoError(t, err)
	require.Empty(t, tasks)
	for _, key := range []string{
		"/tidb/brie/import/restore/full-1", "/tidb/brie/import/import-into/41/2", "/tidb/brie/imports", "/tidb/br-stream/info/pitr",
	} {
		s.SetEtcd(key, "")
	}
	tasks, err = c.ImportTasks(t.Context())
	require.NoError(t, err)
	require.Equal(t, []pd.ImportTask{{Kind: "import-into", Name: "41/2"}, {Kind: "restore", Name: "full-1"}}, tasks)

	require.NoError(t, plan.Add(fault.Rule{Point: "pd.EtcdRange", Code: "503"}))
	_, err = c.ImportTasks(t.Context())
	require.Equal(t, failure.Limited, failure.KindOf(err))
}
