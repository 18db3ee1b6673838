package pd_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// ask sends what an operator or TiDB itself would send to PD.
func ask(t *testing.T, s *pdtest.Server, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URLs()[0]+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(answer))
}

const (
	placementPath = "/pd/api/v1/config/placement-rule?partial=true"
	labelPath     = "/pd/api/v1/config/region-label/rules"
	groupPath     = "/resource-manager/api/v1/config/group"
)

// configured is a PD that its operators changed in every way that no volume holds.
func configured(t *testing.T) *pdtest.Server {
	t.Helper()
	s := running(t, pdtest.Config{}, 3)
	ask(t, s, http.MethodPost, "/pd/api/v1/config", `{"schedule.max-snapshot-count": 17, "replication.max-replicas": 5}`)
	ask(t, s, http.MethodPost, placementPath, `[{"group_id":"tiflash","group_index":120,"group_override":false,"rules":[
		{"group_id":"tiflash","id":"table-42-r","start_key":"7480","end_key":"7481","role":"learner","count":1,"version":3,"newer":"kept",
		 "label_constraints":[{"key":"engine","op":"in","values":["tiflash"]}]}]}]`)
	ask(t, s, http.MethodPatch, labelPath, `{"sets":[
		{"id":"schema/app/t1","index":1,"labels":[{"key":"merge_option","value":"deny"}],"rule_type":"key-range","data":[{"start_key":"74","end_key":"75"}]},
		{"id":"import","index":2,"labels":[{"key":"schedule","value":"deny","ttl":"5m0s"}],"rule_type":"key-range","data":[]}]}`)
	ask(t, s, http.MethodPost, groupPath, `{"name":"batch","mode":1,"priority":1,"r_u_settings":{"r_u":{"settings":{"fill_rate":9007199254740993}}}}`)
	return s
}

// TestPDState_IsPutBack moves all of it to a fresh PD, twice.
func TestPDState_IsPutBack(t *testing.T) {
	t.Parallel()
	state, err := open(t, configured(t).URLs()...).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, cluster.PDStateVersion, state.Version)
	require.Empty(t, state.Missing)
	stored, err := json.Marshal(state) // as in a manifest
	require.NoError(t, err)
	var want cluster.PDState
	require.NoError(t, json.Unmarshal(stored, &want))
	require.Contains(t, string(want.PlacementRules), `"newer"`, "what this program does not know is kept")

	target := running(t, pdtest.Config{}, 3)
	client := open(t, target.URLs()...)
	left, err := client.PutState(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Contains(t, target.Rules("placement"), "tiflash")
	require.Contains(t, target.Rules("labels"), "schema/app/t1")
	require.NotContains(t, target.Rules("labels"), "import", "its time is over")
	require.Contains(t, target.Rules("groups"), "batch")
	now, err := client.State(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, string(want.Config["schedule"]), string(now.Config["schedule"]))
	require.JSONEq(t, string(want.Config["replication"]), string(now.Config["replication"]))

	calls := len(target.MutatingCalls())
	left, err = client.PutState(t.Context(), want)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, target.MutatingCalls(), calls, "nothing differs, so nothing is set")
}

// TestWhatPDRefuses_IsListed: an override in force, a part that the backup does not have, and a newer format.
// What differs is named one by one, and added where PD shows enough of it.
func TestSchedulers_ArePutBackOneByOne(t *testing.T) {
	t.Parallel()
	source := running(t, pdtest.Config{}, 3)
	for _, body := range []string{`{"name":"evict-leader-scheduler","store_id":2}`, `{"name":"shuffle-region-scheduler"}`} {
		ask(t, source, http.MethodPost, "/pd/api/v1/schedulers", body)
	}
	source.AddScheduler("scatter-range-scheduler")
	source.RemoveScheduler("balance-region-scheduler")
	want, err := open(t, source.URLs()...).State(t.Context())
	require.NoError(t, err)

	target := running(t, pdtest.Config{}, 3)
	client := open(t, target.URLs()...)
	left, err := client.PutState(t.Context(), pd.WithoutSchedulers(want))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, target.Schedulers(), 4, "none is added before the cluster serves")
	left, err = client.PutState(t.Context(), want)
	require.NoError(t, err)
	require.Len(t, left, 2, left)
	require.Contains(t, left[0], "could not restore scheduler scatter-range-scheduler: ")
	require.Equal(t, "scheduler balance-region-scheduler runs but did not in the source: remove it with pd-ctl if you do not want it", left[1])
	var names []string
	for _, s := range target.Schedulers() {
		names = append(names, s.Name)
	}
	require.Contains(t, names, "evict-leader-scheduler")
	require.Contains(t, names, "shuffle-region-scheduler")
}

// What moves leaders away from a store is TiDB Operator's in a cluster of 2.x, and while the pods of any restart.
func TestSchedulers_OfTheOperator_AreNeitherPutBackNorListed(t *testing.T) {
	t.Parallel()
	source := running(t, pdtest.Config{}, 3)
	ask(t, source, http.MethodPost, "/pd/api/v1/schedulers", `{"name":"evict-leader-scheduler","store_id":2}`)
	want, err := open(t, source.URLs()...).State(t.Context())
	require.NoError(t, err)
	target := running(t, pdtest.Config{}, 3)
	client := open(t, target.URLs()...)
	left, err := client.PutState(t.Context(), pd.WithoutEvictions(want))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, target.Schedulers(), 4)

	ask(t, target, http.MethodPost, "/pd/api/v1/schedulers", `{"name":"evict-leader-scheduler","store_id":3}`)
	left, err = client.PutState(t.Context(), pd.WithoutEvictions(want))
	require.NoError(t, err)
	require.Empty(t, left)
	unread := cluster.PDState{Config: map[string]json.RawMessage{"schedule": json.RawMessage(`{}`)}}
	require.Equal(t, unread, pd.WithoutEvictions(unread))
}

func TestWhatPDRefuses_IsListed(t *testing.T) {
	t.Parallel()
	want, err := open(t, configured(t).URLs()...).State(t.Context())
	require.NoError(t, err)
	want.Missing = map[string]string{cluster.PDResourceGroups: "pd answered 404"}
	want.Version = cluster.PDStateVersion + 1

	target := running(t, pdtest.Config{}, 3)
	client := open(t, target.URLs()...)
	require.NoError(t, client.SetTTLConfig(t.Context(), map[string]any{"schedule.max-snapshot-count": 0}, time.Hour))
	left, err := client.PutState(t.Context(), want)
	require.NoError(t, err)
	require.Len(t, left, 3)
	require.Contains(t, left[0], "could not restore config schedule.max-snapshot-count")
	require.Contains(t, left[0], "need to clean up TTL first")
	require.Contains(t, left[1], "the resource groups are not in the backup: pd answered 404")
	require.Contains(t, left[2], "version 2")

	require.NoError(t, client.DropTTLConfig(t.Context(), []string{"schedule.max-snapshot-count"}))
	left, err = client.PutState(t.Context(), want)
	require.NoError(t, err)
	require.Len(t, left, 2, "the override was all that was in the way")
}

func TestState_OldOrOff_IsMissingOrEmpty(t *testing.T) {
	t.Parallel()
	t.Run("a call that PD does not have", func(t *testing.T) {
		t.Parallel()
		faults := &fault.Plan{}
		require.NoError(t, faults.Add(fault.Rule{Point: "pd.ResourceGroups", Position: fault.Before, Code: "404", Times: 1}))
		state, err := open(t, running(t, pdtest.Config{Faults: faults}, 3).URLs()...).State(t.Context())
		require.NoError(t, err)
		require.Contains(t, state.Missing, cluster.PDResourceGroups)
		require.NotEmpty(t, state.PlacementRules)
	})
	t.Run("placement rules are off", func(t *testing.T) {
		t.Parallel()
		off := map[string]any{"replication.enable-placement-rules": "false", "schedule.leader-schedule-limit": 0}
		state, err := open(t, running(t, pdtest.Config{Configs: off}, 3).URLs()...).State(t.Context())
		require.NoError(t, err)
		require.Empty(t, state.PlacementRules)
		require.Empty(t, state.Missing)
	})
	t.Run("PD is away for a moment", func(t *testing.T) {
		t.Parallel()
		faults := &fault.Plan{}
		require.NoError(t, faults.Add(fault.Rule{Point: "pd.RegionLabels", Position: fault.Before, Code: "503", Times: 1}))
		client := open(t, running(t, pdtest.Config{Faults: faults}, 3).URLs()...)
		_, err := client.State(t.Context())
		require.True(t, failure.Transient(err), "%v", err)
		_, err = client.State(t.Context())
		require.NoError(t, err)
	})
}
