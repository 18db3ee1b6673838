package ebs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

const wholeStorage = "s3://" + testbed.Bucket + "/whole"

var wholeTarget = cluster.Name{Namespace: "tidb", Name: "copy"}

// whole is a testbed with a cluster, on which the command line runs in this process.
type whole struct {
	*testbed.Testbed
	faults *fault.Plan
	scale  float64
}

// newWhole starts a cluster of so many stores; change may alter the testbed.
func newWhole(t *testing.T, stores int, change ...func(*testbed.Config)) *whole {
	t.Helper()
	w := &whole{faults: &fault.Plan{}, scale: 20}
	cfg := testbed.Config{
		Dir: t.TempDir(), Nodes: stores, Scale: w.scale, Seed: 1, Faults: w.faults, Rules: ebstest.QuickRules(),
		TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond},
	}
	cfg.Rules.SnapshotSpacing = 0
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var err error
	w.Testbed, err = testbed.Start(context.WithoutCancel(ctx), cfg)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	_, err = w.CreateCluster(ctx, liveName, stores)
	require.NoError(t, err)
	return w
}

// noData makes the cluster's stores static: enough for backups, and quick.
func noData(c *testbed.Config) { c.StaticRegions = 4 }

// ended is how a command ended.
type ended struct {
	code           cli.ExitCode
	stdout, stderr string
}

func (w *whole) run(t *testing.T, args ...string) ended {
	t.Helper()
	return w.runIn(t.Context(), t, args...)
}

// runIn runs a command until the context ends it, as Ctrl-C does.
func (w *whole) runIn(ctx context.Context, t *testing.T, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	args = append(args, "--storage", wholeStorage, "--endpoint-url", w.AWS(), "--region", testbed.Region,
		"--kubeconfig", w.Kubeconfig(), "--progress", "plain")
	code := cli.Run(ctx, args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
	return ended{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// ok requires that the command ends with 0.
func (w *whole) ok(t *testing.T, args ...string) ended {
	t.Helper()
	e := w.run(t, args...)
	require.Zero(t, e.code, "tisnap %s\n%s\n%s", strings.Join(args, " "), e.stderr, e.stdout)
	return e
}

// refused requires the code and that nothing was changed anywhere.
func (w *whole) refused(t *testing.T, code cli.ExitCode, args ...string) ended {
	t.Helper()
	before := w.MutatingCalls()
	e := w.run(t, args...)
	require.Equal(t, code, e.code, "tisnap %s\n%s\n%s", strings.Join(args, " "), e.stderr, e.stdout)
	require.Equal(t, before, w.MutatingCalls(), "the command changed something")
	return e
}

func (w *whole) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, w.faults.Add(r))
}

// backup takes a backup of the cluster.
func (w *whole) backup(t *testing.T, name string) {
	t.Helper()
	w.ok(t, "backup", liveName.String(), "--name", name, "--run-id", "run-"+name)
}

// destroy deletes the cluster and its volumes.
func (w *whole) destroy(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := w.DestroyCluster(ctx, liveName)
	require.NoError(t, err)
}

func (w *whole) store(t *testing.T) objstore.Store {
	t.Helper()
	store, err := objstore.Open(t.Context(), wholeStorage, objstore.Config{Region: testbed.Region, Endpoint: w.AWS()})
	require.NoError(t, err)
	return store
}

// report reads what gc or delete printed with -o json.
func (e ended) report(t *testing.T) *gc.Report {
	t.Helper()
	r := new(gc.Report)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), r), "%s\n%s", e.stderr, e.stdout)
	return r
}

// aws calls EC2 as a person's aws would.
func (w *whole) aws(t *testing.T, action string, params ...string) {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(params); i += 2 {
		form.Set(params[i], params[i+1])
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.AWS()+"/", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", action, body)
}

// snapshots are those of a backup, visible or not.
func (w *whole) snapshots(backup string) []cluster.SnapshotID {
	var out []cluster.SnapshotID
	for _, s := range w.EC2.Snapshots() {
		if s.Tags[ebs.TagBackup] == backup {
			out = append(out, s.ID)
		}
	}
	return out
}

// restored are the volumes that restores made.
func (w *whole) restored() []ebs.Volume {
	return slices.DeleteFunc(w.EC2.Volumes(), func(v ebs.Volume) bool { return v.Tags[ebs.TagRun] == "" })
}

// expire ends the lock of a run that was killed, as time does.
func (w *whole) expire(t *testing.T, name cluster.Name) {
	t.Helper()
	store := w.store(t)
	lock, _, err := runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.NoError(t, runlock.Break(t.Context(), store, name, lock.Epoch))
}

// balanced requires that EC2 holds what sealed backups and clusters name, and nothing else, within a while:
// volumes may be on their way out.
func (w *whole) balanced(t *testing.T) {
	t.Helper()
	store := w.store(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, leak.Balance(t.Context(), w.Testbed, store))
	}, 20*time.Second, 50*time.Millisecond)
}

// visible waits until EC2 shows every id.
func (w *whole) visible(t *testing.T, longest time.Duration) {
	t.Helper()
	begin := time.Now()
	require.Eventually(t, func() bool { return time.Since(begin) > time.Duration(float64(longest)/w.scale) }, time.Minute, 10*time.Millisecond)
}
