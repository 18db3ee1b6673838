package hold_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// scale is how many times as fast EC2 is: the 15 s between two snapshots of a volume pass in 0.75 s.
	scale = 20
	// lease is the shortest that a hold takes. PD and TiKV count whole seconds, so what dies holds up to a second longer.
	lease = 3 * time.Second

	storage = "s3://" + testbed.Bucket + "/hold"

	exitUnready  = cli.ExitCode(5)
	exitConflict = cli.ExitCode(6)
	exitDenied   = cli.ExitCode(7)
	exitLimited  = cli.ExitCode(8)
	exitHeld     = cli.ExitCode(9)
)

// prod is the cluster that backups are taken of.
var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit))
}

// place is a testbed with one cluster.
type place struct {
	*testbed.Testbed
	c      *testbed.Cluster
	faults *fault.Plan
}

// newPlace starts a testbed with a cluster of stores, each on a node of its own.
func newPlace(t *testing.T, stores int, change ...func(*testbed.Config)) *place {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	p := startPlace(t, stores, change...)
	var err error
	p.c, err = p.CreateCluster(ctx, prod, stores)
	require.NoError(t, err)
	return p
}

// startPlace starts a testbed without a cluster.
func startPlace(t *testing.T, nodes int, change ...func(*testbed.Config)) *place {
	t.Helper()
	p := &place{faults: &fault.Plan{}}
	cfg := testbed.Config{Dir: t.TempDir(), Nodes: nodes, Scale: scale, Faults: p.faults, Rules: ebstest.QuickRules()}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	p.Testbed, err = testbed.Start(context.WithoutCancel(t.Context()), cfg)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// fault puts a rule into force; the test fails at its end if it never struck.
func (p *place) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, p.faults.Add(r))
}

// watch calls a function at each call of a point and lets the call pass.
func (p *place) watch(t *testing.T, point string, do func()) {
	t.Helper()
	p.fault(t, fault.Rule{Point: point, Position: fault.Slow, Times: -1, Do: do})
}

// reached requires that every fault struck.
func (p *place) reached(t *testing.T) {
	t.Helper()
	require.Empty(t, p.faults.Unreached(), "faults that never happened")
}

// ending is how a command ended.
type ending struct {
	code   cli.ExitCode
	stdout string
	stderr string
	doc    result
}

// result is what the tests read of the output of `tisnap backup -o json`.
type result struct {
	Run      cluster.RunID
	Backup   cluster.BackupID
	Sealed   bool
	BackupTS uint64 `json:"backupTS,string"`
	Report   struct {
		Volumes  int
		TiKVs    int `json:"tikvs"`
		Error    string
		Warnings []string
		Hold     *struct {
			Start       time.Time
			Seconds     float64
			SkewSeconds float64
			Attempts    int
			Parts       []struct {
				Name    string
				Seconds float64
			}
		}
	}
}

// String is for messages of failed tests.
func (e ending) String() string { return fmt.Sprintf("exit code %d\n%s%s", e.code, e.stderr, e.stdout) }

// run runs one command line in this process, against the testbed.
func (p *place) run(ctx context.Context, args ...string) ending {
	var stdout, stderr bytes.Buffer
	args = append(args, "--endpoint-url", p.AWS(), "--region", testbed.Region, "--kubeconfig", p.Kubeconfig(), "--progress", "plain", "--storage", storage)
	code := cli.Run(ctx, args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
	return ending{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// backup runs `tisnap backup` with the shortest lease.
func (p *place) backup(t *testing.T, args ...string) ending {
	t.Helper()
	return p.backupUnder(within(t, 2*time.Minute), t, args...)
}

func (p *place) backupUnder(ctx context.Context, t *testing.T, args ...string) ending {
	t.Helper()
	e := p.run(ctx, append([]string{
		"backup", prod.String(), "-o", "json", "--lease", lease.String(), "--max-hold", "30s", "--timeout", "1m", "--pending-quota", "5000", "--steady", "1s",
	}, args...)...)
	if e.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &e.doc), e.String())
	}
	return e
}

// nothingHeld requires that the run that has just ended left nothing held, except for what is another's: not
// now, as every way out of a run releases it before it ends, and not a lease later.
func (p *place) nothingHeld(t *testing.T, theirs ...string) {
	t.Helper()
	require.Empty(t, p.c.HeldBut(theirs...), "held after the run")
}

// releasedWithin requires that nothing is held within a time, for runs that cannot release themselves.
func (p *place) releasedWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx := within(t, limit)
	for len(p.c.Held()) > 0 {
		if wait.For(ctx, 20*time.Millisecond) != nil {
			require.Empty(t, p.c.Held(), "held after %s", limit)
			return
		}
	}
}

// leftNothing requires that a run that failed left no hold and no snapshot.
func (p *place) leftNothing(t *testing.T, theirs ...string) {
	t.Helper()
	p.nothingHeld(t, theirs...)
	require.Empty(t, p.EC2.Snapshots(), "snapshots of a run that failed")
}

// sealed requires that the run sealed a backup of n volumes and released the cluster.
func (p *place) sealed(t *testing.T, e ending, n int, theirs ...string) {
	t.Helper()
	require.Equal(t, cli.ExitDone, e.code, e.String())
	require.True(t, e.doc.Sealed)
	require.Len(t, p.EC2.Snapshots(), n)
	p.nothingHeld(t, theirs...)
}

// journal reads the journal of a run.
func (p *place) journal(t *testing.T, run cluster.RunID) []phase.Record {
	t.Helper()
	ctx := within(t, 20*time.Second)
	store, err := objstore.Open(ctx, storage, objstore.Config{Region: testbed.Region, Endpoint: p.AWS()})
	require.NoError(t, err)
	records, err := journal.NewStoreJournal(store, manifest.JournalPrefix(run)).Records(ctx)
	require.NoError(t, err)
	return records
}

// outcome is how a step ended by the journal: the type of its last record.
func outcome(records []phase.Record, step string) phase.RecordType {
	var last phase.RecordType
	for _, r := range records {
		if r.Step == step && r.Type != phase.RecordIntent && r.Type != phase.RecordResult {
			last = r.Type
		}
	}
	return last
}

// resumeImports allows imports on a store, as another tool would.
func (p *place) resumeImports(t *testing.T, addr string) {
	c := tikv.Open(tikv.Config{})
	defer c.Close()
	if _, err := c.ResumeImport(within(t, 10*time.Second), addr, "someone"); err != nil {
		t.Error(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// attempts are the arguments that bound how often a hold that broke is tried.
func attempts(n int) []string { return []string{"--hold-attempts", strconv.Itoa(n)} }

func id(s *tikvtest.Store) string { return strconv.FormatUint(s.ID(), 10) }

// spread is a latency of one of EC2's actions, in virtual time.
func spread(action string, least, most time.Duration) map[string]ebstest.Span {
	return map[string]ebstest.Span{action: {Least: least, Most: most}}
}
