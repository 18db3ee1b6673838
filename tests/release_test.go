package tests

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// TestRelease_WhatAKilledBackupHolds walks a person's way: look, try, force, look again.
func TestRelease_WhatAKilledBackupHolds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	bed, err := testbed.Start(ctx, testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 10})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(ctx, name, 3)
	require.NoError(t, err)
	const storage = "s3://" + testbed.Bucket + "/release"
	run := func(args ...string) (cli.ExitCode, string, string) {
		var out, errs bytes.Buffer
		code := tisnap(ctx, bed, &out, &errs, append(args, "--storage", storage)...)
		return code, out.String(), errs.String()
	}

	p, err := pd.Open(ctx, pd.Config{Addresses: c.PD.URLs()})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	scheduler := c.PD.Schedulers()[0].Name
	require.NoError(t, p.PauseScheduler(ctx, scheduler, time.Minute))
	require.NoError(t, p.SetTTLConfig(ctx, map[string]any{"schedule.merge-schedule-limit": 0}, time.Minute))
	ts, err := p.Now(ctx)
	require.NoError(t, err)
	_, err = p.HoldGC(ctx, "tisnap-dead", ts, time.Minute)
	require.NoError(t, err)
	stores := tikv.Open(tikv.Config{})
	t.Cleanup(stores.Close)
	for _, s := range c.Stores() {
		l, err := stores.OpenLease(ctx, s.Addr())
		require.NoError(t, err)
		_, err = l.Renew(ctx, time.Minute)
		require.NoError(t, err)
		l.Close()
	}
	store, err := objstore.Open(ctx, storage, objstore.Config{Region: testbed.Region, Endpoint: bed.AWS()})
	require.NoError(t, err)
	lock, err := runlock.Acquire(ctx, store, name, runlock.Owner{Run: "dead", Host: "node-7", PID: 42, Command: "backup"}, time.Minute)
	require.NoError(t, err)

	alive := func() { require.NoError(t, lock.Renew(ctx)) } // or a slow test is taken for a dead run
	alive()
	before := bed.MutatingCalls()
	code, out, _ := run("hold", "status", "tidb/prod")
	require.Equal(t, cli.ExitDone, code)
	for _, want := range []string{"node-7", scheduler, "schedule.merge-schedule-limit", "run dead"} {
		require.Contains(t, out, want)
	}
	code, out, _ = run("hold", "status", "tidb/prod", "-o", "json")
	require.Equal(t, cli.ExitDone, code)
	var status struct {
		Kind       string
		Lock       struct{ Run string }
		Schedulers []struct{ Name string }
		SafePoints []struct{ Run string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &status), out)
	require.Equal(t, "HoldStatus", status.Kind)
	require.Equal(t, "dead", status.Lock.Run)
	require.Equal(t, "dead", status.SafePoints[0].Run)

	code, _, errs := run("release", "tidb/prod")
	require.EqualValues(t, 2, code)
	require.Contains(t, errs, "--yes")
	code, _, errs = run("release", "tidb/prod", "--yes")
	require.EqualValues(t, 6, code)
	require.Contains(t, errs, "run dead (backup, pid 42 on host node-7)")
	require.Contains(t, errs, "hint: ")
	require.Equal(t, before, bed.MutatingCalls(), "nothing was changed so far")

	code, out, _ = run("release", "tidb/prod", "--dry-run", "--force", "-o", "json")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, `"kind": "ReleasePlan"`)
	require.Contains(t, out, scheduler)
	code, out, _ = run("release", "tidb/prod", "--dry-run", "--force", "--all")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "would restore 1 schedulers and 1 limits, drop 1 GC safe points")
	require.Equal(t, before, bed.MutatingCalls(), "nothing was changed so far")

	code, out, errs = run("release", "tidb/prod", "--yes", "--force")
	require.Equal(t, cli.ExitDone, code, errs)
	require.Contains(t, out, "KEPT: scheduler")
	require.Contains(t, out, "KEPT: limit")
	require.Contains(t, out, "tisnap-dead")
	require.Contains(t, out, "lease")
	code, out, errs = run("release", "tidb/prod", "--yes", "--all")
	require.Equal(t, cli.ExitDone, code, errs)
	require.Contains(t, out, scheduler)
	code, out, _ = run("release", "tidb/prod", "--yes")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, "cluster tidb/prod was not held\n", out)
	code, out, _ = run("hold", "status", "tidb/prod")
	require.Equal(t, cli.ExitDone, code)
	require.Equal(t, "nothing is paused in the PD of cluster tidb/prod\n", out)
	require.NoError(t, c.SplitAt(ctx, []byte("free")))

	code, _, _ = run("release", "tidb/none", "--yes")
	require.EqualValues(t, 4, code)
	code, out, _ = run("release", "--help")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "EXIT STATUS")
}
