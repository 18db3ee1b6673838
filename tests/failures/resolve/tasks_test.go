package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// withTasks puts a log backup and two changefeeds into the target's PD as soon as it is up, before the data are
// changed.
func (p *place) withTasks(t *testing.T, name cluster.Name) {
	t.Helper()
	p.fault(t, fault.Rule{Point: "pd.MarkRecovering", Position: fault.Slow, Do: func() {
		s := p.cluster(name).PD
		s.SetEtcd("/tidb/br-stream/info/pitr", "\n\x04pitr")
		s.SetEtcd("/tidb/cdc/default/default/changefeed/info/feed", `{"state":"normal"}`)
		s.SetEtcd("/tidb/cdc/default/default/changefeed/info/old", `{"state":"stopped"}`)
	}})
}

// It has log backup and CDC tasks in the restored cluster's PD: a flashback is not what they expect
// (pingcap/tidb#39602, pingcap/tidb#39920).
// Catalogue: G14.
func TestLogBackupAndChangefeed_AreReportedPausedOrRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	feed := pd.Task{Kind: pd.TaskChangefeed, Name: "default/default/feed", State: "normal"}

	name := p.next()
	p.withTasks(t, name)
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	p.reached(t)
	require.Equal(t, []pd.Task{{Kind: pd.TaskLogBackup, Name: "pitr", State: "running"}, feed}, e.doc.Tasks)
	require.Len(t, e.doc.Report.Warnings, 1)
	require.Contains(t, e.doc.Report.Warnings[0], "log backup pitr, changefeed default/default/feed read the changes")
	require.Contains(t, e.doc.Report.Warnings[0], "from a full backup")
	require.Contains(t, e.stderr, "warning: resolve data: check-tasks: log backup pitr", "a person sees it at once")
	p.verify(t, name)

	name = p.next()
	p.withTasks(t, name)
	e = p.restore(t, name, "--on-tasks", "pause")
	require.Zero(t, e.code, e.String())
	p.reached(t)
	require.Equal(t, []pd.Task{{Kind: pd.TaskLogBackup, Name: "pitr", State: "paused"}, feed}, e.doc.Tasks)
	_, paused := p.cluster(name).PD.Etcd("/tidb/br-stream/pause/pitr")
	require.True(t, paused)
	require.Len(t, e.doc.Report.Warnings, 1)
	p.verify(t, name)

	name = p.next()
	p.withTasks(t, name)
	e = p.restore(t, name, "--on-tasks", "refuse", "--keep-on-failure")
	require.Equal(t, exitUnready, e.code, e.String())
	p.reached(t)
	require.Contains(t, e.stderr, "log backup pitr, changefeed default/default/feed run")
	require.Contains(t, e.stderr, `"hint":"stop them (`)
	p.untouched(t, name)

	e = p.resolve(t, name)
	require.Zero(t, e.code, e.String())
	require.Len(t, e.doc.Tasks, 2)
	p.verify(t, name)
}
