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
	started := marshal(t, &backup.StreamBackupTaskInfo{Name: "pitr", StartTs: 4711, Storage: &backup.StorageBackend{
		Backend: &backup.StorageBackend_S3{S3: &backup.S3{Bucket: "logs", Prefix: "/prod/1", SecretAccessKey: "secret"}},
	}})
	for key, value := range map[string]string{
		"/tidb/br-stream/info/pitr":                                started,
		"/tidb/br-stream/info/old":                                 "\n\x03old",
		"/tidb/br-stream/pause/old":                                "",
		"/tidb/br-stream/ranges/pitr/\x00":                         "\xff",
		"/tidb/br-stream/checkpoint/pitr/central_global":           "\x00\x00\x00\x00\x00\x00\x13\x37",
		"/tidb/br-stream/checkpoint/pitr/store/1":                  "12345678",
		"/tidb/br-stream/last-error/old/1":                         marshal(t, &backup.StreamBackupError{HappenAt: 7, ErrorCode: "KV:LogBackup:IO", ErrorMessage: "no\nspace"}),
		"/tidb/br-stream/last-error/old/2":                         marshal(t, &backup.StreamBackupError{HappenAt: 6, ErrorMessage: "before"}),
		"/tidb/br-stream/last-error/older/1":                       "\xff",
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
		{Kind: pd.TaskLogBackup, Name: "old", State: "paused", Error: "KV:LogBackup:IO no space"},
		{Kind: pd.TaskLogBackup, Name: "pitr", State: "running", StartTS: 4711, Checkpoint: 0x1337, Storage: "s3://logs/prod/1"},
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

// An error that cannot be read is one. Where a log is, its URL shows, and no key to it.
func TestTasks_StateOfLogBackups(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	for name, storage := range map[string]*backup.StorageBackend{
		"azure": {Backend: &backup.StorageBackend_AzureBlobStorage{
			AzureBlobStorage: &backup.AzureBlobStorage{Bucket: "b", Prefix: "p", SharedKey: "secret"},
		}},
		"gcs":   {Backend: &backup.StorageBackend_Gcs{Gcs: &backup.GCS{Bucket: "b", CredentialsBlob: "secret"}}},
		"local": {Backend: &backup.StorageBackend_Local{Local: &backup.Local{Path: "/logs"}}},
		"noop":  {Backend: &backup.StorageBackend_Noop{Noop: &backup.Noop{}}},
	} {
		s.SetEtcd("/tidb/br-stream/info/"+name, marshal(t, &backup.StreamBackupTaskInfo{StartTs: 7, Storage: storage}))
	}
	s.SetEtcd("/tidb/br-stream/last-error/noop/1", "\xff")
	tasks, err := open(t, s.URLs()...).Tasks(t.Context())
	require.NoError(t, err)
	of := func(name, storage, err string) pd.Task {
		return pd.Task{
			Kind: pd.TaskLogBackup, Name: name, State: "running", StartTS: 7, Checkpoint: 7, Storage: storage, Error: err,
		}
	}
	require.Equal(t, []pd.Task{
		of("azure", "azure://b/p", ""), of("gcs", "gcs://b", ""), of("local", "local:///logs", ""),
		of("noop", "", "an error that cannot be read"),
	}, tasks)
}

func marshal(t *testing.T, m interface{ Marshal() ([]byte, error) }) string {
	t.Helper()
	body, err := m.Marshal()
	require.NoError(t, err)
	return string(body)
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
