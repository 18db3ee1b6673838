package tests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestPDState_IsInTheBackup backs up a cluster whose PD its operators changed, and which has a TiFlash store, and
// restores it: as it was, with a PD that refuses a part of it, and without.
func TestPDState_IsInTheBackup(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Nodes: 12, Faults: faults})
	source, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	at := source.PD.URLs()[0]
	send(t, http.MethodPost, at+"/pd/api/v1/config", "application/json", `{"schedule.leader-schedule-limit": 9, "schedule.max-snapshot-count": 17}`)
	send(t, http.MethodPost, at+"/pd/api/v1/config/placement-rule?partial=true", "application/json", `[{"group_id":"tiflash","group_index":120,"rules":[
		{"group_id":"tiflash","id":"table-42-r","start_key":"7480","end_key":"7481","role":"learner","count":1}]}]`)
	send(t, http.MethodPatch, at+"/pd/api/v1/config/region-label/rules", "application/json", `{"sets":[{"id":"schema/app/t1","labels":[{"key":"merge_option","value":"deny"}],
		"rule_type":"key-range","data":[{"start_key":"74","end_key":"75"}]}]}`)
	send(t, http.MethodPost, at+"/resource-manager/api/v1/config/group", "application/json", `{"name":"batch","mode":1,"r_u_settings":{"r_u":{"settings":{"fill_rate":500}}}}`)
	_, err = source.PD.PutStore(t.Context(), &pdpb.PutStoreRequest{Store: &metapb.Store{
		Id: 9000, Address: "127.0.0.1:3930", Version: "8.5.0", Labels: []*metapb.StoreLabel{{Key: "engine", Value: "tiflash"}},
	}})
	require.NoError(t, err)

	const storage = "s3://" + testbed.Bucket + "/pd-state"
	refused := p.refused(t, "backup", prod.String(), "--storage", storage, "--tiflash", "refuse")
	require.Equal(t, cli.ExitCode(5), refused.code, refused.stderr)
	require.Contains(t, refused.line("error: "), "1 TiFlash stores")
	backup := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", storage)
	require.Equal(t, cli.ExitDone, backup.code, backup.stderr)
	require.Contains(t, backup.stdout, "TiFlash replicas must be rebuilt")
	refused = p.refused(t, "restore", string(firstBackup), "--to", "tidb/none", "--storage", storage, "--tiflash", "refuse")
	require.Equal(t, cli.ExitCode(5), refused.code, refused.stderr)

	restore := func(t *testing.T, to string, more ...string) (ending, *testbed.Cluster) {
		t.Helper()
		args := append([]string{"restore", string(firstBackup), "--to", "tidb/" + to, "--storage", storage, "--volume-size", "110"}, more...)
		e := p.run(t, args...)
		c, err := p.bed.AwaitCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: to})
		require.NoError(t, err, e.stderr)
		return e, c
	}
	t.Run("put back", func(t *testing.T) {
		e, c := restore(t, "copy")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		assert.Contains(t, e.stdout, "TiFlash replicas must be rebuilt")
		assert.Contains(t, c.PD.Rules("placement"), "tiflash")
		assert.Contains(t, c.PD.Rules("labels"), "schema/app/t1")
		assert.Contains(t, c.PD.Rules("groups"), "batch")
		config := send(t, http.MethodGet, c.PD.URLs()[0]+"/pd/api/v1/config/schedule", "application/json", "")
		assert.Contains(t, config, `"leader-schedule-limit": 9`, "an item that is frozen until the cluster serves")
		assert.Contains(t, config, `"max-snapshot-count": 17`)
		calls := strings.Join(c.PD.MutatingCalls(), "\n")
		assert.Less(t, strings.Index(calls, "SetPlacementRules"), strings.Index(calls, "UnmarkRecovering"), "before TiDB starts:\n%s", calls)
	})
	t.Run("refused in part", func(t *testing.T) {
		require.NoError(t, faults.Add(fault.Rule{Point: "pd.SetRegionLabels", Position: fault.Before, Code: "400", Times: 99}))
		e, c := restore(t, "part")
		require.Equal(t, cli.ExitCode(3), e.code, e.stderr)
		assert.Contains(t, e.line("error: "), "could not restore region label schema/app/t1")
		assert.Contains(t, e.stdout, "serves the data of backup")
		assert.Contains(t, c.PD.Rules("placement"), "tiflash", "the rest is put back")
	})
	t.Run("skipped", func(t *testing.T) {
		e, c := restore(t, "bare", "--pd-state", "skip")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		assert.NotContains(t, c.PD.Rules("placement"), "tiflash")
	})
}
