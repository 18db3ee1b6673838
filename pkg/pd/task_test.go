package pd_test

import (
	"testing"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestTasks_NoneInANewCluster(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	tasks, err := open(t, s.URLs()...).Tasks(t.Context())
	require.NoError(t, err)
	require.Empty(t, tasks)
}

// The keys are those that br, TiKV and TiCDC write; what lies beside them is not a task.
func TestTasks_LogBackupsAndChangefeeds_AreListed(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	started, err := (&backup.StreamBackupTaskInfo{Name: "pitr", StartTs: 4711}).Marshal()
	require.NoError(t, err)
	for key, value := range map[string]string{
		"/tidb/br-stream/info/pitr":                                string(started),
		"/tidb/br-stream/info/old":                                 "\n\x03old",
		"/tidb/br-stream/pause/old":                                "",
		"/tidb/br-stream/ranges/pitr/\x00":                         "\xff",
		"/tidb/br-stream/checkpoint/pitr/central_global":           "12345678",
		"/tidb/cdc/default/default/changefeed/info/feed":           `{"sink-uri":"mysql://h","state":"normal"}`,
		"/tidb/cdc/default/default/changefeed/status/feed":         `{"checkpoint-ts":1}`,
		"/tidb/cdc/default/__cdc_meta__/meta/meta-version":         "1",
		"/tidb/cdc/__backup__/1/tidb/cdc/changefeed/info/migrated": `{"state":"normal"}`,
		"/tidb/cdc/changefeed/info/ancient":                        `{"state":"stopped"}`,
		"/tidb/cdc/my-cdc/team/changefeed/info/broken":             `{`,
		"/tidb/server/info/x":                                      "{}",
	} {
		s.SetEtcd(key, value)
	}
	c := open(t, s.URLs()...)
	tasks, err := c.Tasks(t.Context())
	require.NoError(t, err)
	require.Equal(t, []pd.Task{
		{Kind: pd.TaskLogBackup, Name: "old", State: "paused"},
		{Kind: pd.TaskLogBackup, Name: "pitr", State: "running", StartTS: 4711},
		{Kind: pd.TaskChangefeed, Name: "ancient", State: "stopped"},
		{Kind: pd.TaskChangefeed, Name: "default/default/feed", State: "normal"},
		{Kind: pd.TaskChangefeed, Name: "my-cdc/team/broken"},
	}, tasks)
	running := []string{}
	for _, task := range tasks {
		if task.Running() {
			running = append(running, task.Name)
		}
	}
	require.Equal(t, []string{"pitr", "default/default/feed", "my-cdc/team/broken"}, running, "in doubt it runs")

	require.NoError(t, c.PauseLogBackup(t.Context(), "pitr"))
	require.NoError(t, c.PauseLogBackup(t.Context(), "pitr"))
	value, paused := s.Etcd("/tidb/br-stream/pause/pitr")
	require.True(t, paused)
	require.Empty(t, value, "an empty value is br's word for a pause by hand")
	tasks, err = c.Tasks(t.Context())
	require.NoError(t, err)
	require.False(t, tasks[1].Running())
}

func TestTasks_EtcdDoesNotAnswer_IsAnError(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := start(t, pdtest.Config{Faults: faults})
	c := open(t, s.URLs()...)
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.EtcdRange", Code: "500"}))
	_, err := c.Tasks(t.Context())
	require.ErrorContains(t, err, "list log backups and changefeeds")
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.EtcdPut", Position: fault.Stall}))
	err = c.PauseLogBackup(t.Context(), "pitr")
	require.NotEqual(t, failure.Usage, failure.KindOf(err))
	require.ErrorContains(t, err, "pause log backup of pitr")
}
