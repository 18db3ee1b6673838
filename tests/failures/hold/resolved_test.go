package hold_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// A resolved ts that does not move on one store is found before anything is paused; the store and its lag are named.
// https://github.com/tikv/tikv/issues/13838
// Catalogue: A15.
func TestOneStoresResolvedTSDoesNotMove_IsNamedBeforeAnyPause(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3)
	require.NoError(t, p.c.SplitAt(within(t, 30*time.Second), []byte("a"), []byte("b"), []byte("c")))
	laggard := p.c.Stores()[1]
	p.fault(t, fault.Rule{Point: "tikv." + id(laggard) + ".ResolvedTS", Times: -1})
	await(t, 10*time.Second, "the fault", func() bool { return len(p.faults.Unreached()) == 0 })
	require.NoError(t, wait.For(within(t, 30*time.Second), 3*time.Second))
	before := p.paused()
	e := p.backup(t, "--max-lag", "1s")
	require.Equal(t, exitUnready, e.code, e.String())
	require.Contains(t, e.stderr, "store "+id(laggard))
	require.Contains(t, e.stderr, "lags")
	require.Equal(t, before, p.paused())
	p.leftNothing(t)
}

// --consistent-now waits until the resolved ts has passed the command's start, for at most --consistent-timeout.
// https://github.com/tikv/tikv/issues/15520
// Catalogue: A16.
func TestResolvedTSFrozenForAWhile(t *testing.T) {
	t.Parallel()
	freeze := func(t *testing.T, p *place) (thaw func()) {
		t.Helper()
		p.fault(t, fault.Rule{Point: "tikv.*.ResolvedTS", Times: -1})
		await(t, 10*time.Second, "the fault", func() bool { return len(p.faults.Unreached()) == 0 })
		return p.faults.Clear
	}
	t.Run("it moves in time", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		thaw := freeze(t, p)
		now, err := p.c.PD.FreshTS(t.Context())
		require.NoError(t, err)
		time.AfterFunc(2*time.Second, thaw)
		e := p.backup(t, "--consistent-now", "--consistent-timeout", "1m")
		p.sealed(t, e, 6)
		require.Greater(t, e.doc.BackupTS, now, "what was committed before the command is in the backup")
	})
	t.Run("it does not", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 3)
		freeze(t, p)
		before := p.paused()
		e := p.backup(t, "--consistent-now", "--consistent-timeout", "3s")
		require.Contains(t, []cli.ExitCode{exitUnready, exitLimited}, e.code, e.String())
		require.Contains(t, e.stderr, "resolved ts")
		require.Contains(t, e.stderr, `"hint":`, "what to do: move leaders, restart the store")
		require.Equal(t, before, p.paused())
		p.leftNothing(t)
	})
}

// A resolved ts of 0 is no timestamp: the settings that make it so are named.
// https://github.com/pingcap/docs-tidb-operator/blob/master/en/backup-restore-by-ebs-snapshot-faq.md
// Catalogue: A17.
func TestResolvedTSTurnedOff_NamesTheSettings(t *testing.T) {
	t.Parallel()
	p := startPlace(t, 3, func(c *testbed.Config) { c.TiKV.ResolvedTSInterval = -1 })
	ctx := within(t, time.Minute)
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// The wait for a cluster that a backup can be made of ends when its stores and schedulers are there.
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.CreateCluster(short, prod, 3) // it never has a resolved ts
	}()
	await(t, 20*time.Second, "a cluster with schedulers", func() bool {
		p.c = p.Nodes.Cluster(prod)
		return p.c != nil && len(p.c.PD.Schedulers()) > 0 && p.Nodes.TiDBReady(prod) > 0
	})
	cancel()
	<-done
	before := p.paused()
	e := p.backup(t)
	require.Equal(t, exitUnready, e.code, e.String())
	for _, setting := range []string{"resolved-ts.enable", "report-min-resolved-ts-interval", "min-resolved-ts-persistence-interval"} {
		require.Contains(t, e.stderr, setting)
	}
	require.Equal(t, before, p.paused())
	p.leftNothing(t)
}

// setTTL overrides a config item of PD for a while, as another tool would.
func (p *place) setTTL(t *testing.T, ttl, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, 10*time.Second), http.MethodPost, p.c.PD.URLs()[0]+"/pd/api/v1/config?ttlSecond="+ttl, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
