package resolve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

const (
	// patience bounds one test's work on stand-ins that share the machine with other tests.
	patience = 3 * time.Minute
	blink    = 20 * time.Millisecond

	exitUsage    = cli.ExitCode(2)
	exitUnready  = cli.ExitCode(5)
	exitConflict = cli.ExitCode(6)
	exitLimited  = cli.ExitCode(8)
	exitCorrupt  = cli.ExitCode(10)
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	// client-go of the workload logs through this global to stdout.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit),
		// client-go and its pools keep these after Close, as its own tests tolerate.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
		goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).recreateStreamingClient"),
		goleak.IgnoreTopFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"),
	)
}

// place is a testbed with a sealed backup whose cluster is gone.
type place struct {
	*round.Prepared
	faults *fault.Plan
	made   atomic.Int64
}

// newPlace loads a cluster, backs it up under load and destroys it.
func newPlace(t *testing.T, change ...func(*round.Config)) *place {
	t.Helper()
	p := &place{faults: &fault.Plan{}}
	cfg := round.Config{
		Dir: t.TempDir(), Seed: 1, Scale: 20, Faults: p.faults, Accounts: 300, Regions: 8, Clients: 4, Warm: 100 * time.Millisecond,
		TiKV: func(o *tikvtest.Options) {
			o.TickInterval, o.RecoverCheckInterval = 40*time.Millisecond, 200*time.Millisecond
			o.StoreHeartbeatInterval, o.RegionHeartbeatInterval = 200*time.Millisecond, 500*time.Millisecond
		},
		Tisnap: func(bed *testbed.Testbed) round.Tisnap {
			return func(ctx context.Context, args []string, stdout io.Writer) (int, error) {
				if stdout == nil {
					stdout = io.Discard
				}
				if args[0] == "backup" { // these failures are of a data phase that flashes every region back
					args = append(args, "--marks=off")
				}
				return int(run(ctx, bed, stdout, io.Discard, args)), nil
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	for range 3 { // the workload's PD client gives up at once if the machine is too slow when it is opened
		if p.Prepared, err = round.Prepare(within(t), cfg); err == nil {
			break
		}
		t.Logf("trying again: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func run(ctx context.Context, bed *testbed.Testbed, stdout, stderr io.Writer, args []string) cli.ExitCode {
	args = append(args, "--endpoint-url", bed.AWS(), "--region", testbed.Region, "--kubeconfig", bed.Kubeconfig(), "--progress", "plain")
	return cli.Run(ctx, args, cli.Streams{Out: stdout, Err: stderr}, cli.Version{Version: "test"})
}

// ending is how a command ended.
type ending struct {
	code   cli.ExitCode
	stdout string
	stderr string
	doc    document
}

// document is what the tests read of the output of restore and resolve with -o json.
type document struct {
	Run      cluster.RunID
	Restored bool
	Resolved bool
	Resolve  resolve.Stats
	Tasks    []pd.Task
	Plan     *plan.Summary
	Report   struct {
		Error        string
		Warnings     []string
		TotalSeconds float64
		Phases       []report.Phase
	}
}

// String is for messages of failed tests.
func (e ending) String() string { return fmt.Sprintf("exit code %d\n%s%s", e.code, e.stderr, e.stdout) }

// run runs one command line in this process, against the testbed.
func (p *place) run(ctx context.Context, t *testing.T, args ...string) ending {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(ctx, p.Bed(), &stdout, &stderr, append(args, "--storage", round.Storage, "-o", "json"))
	e := ending{code: code, stdout: stdout.String(), stderr: stderr.String()}
	if e.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &e.doc), e.String())
	}
	return e
}

// next is the name of a cluster that is not there yet.
func (p *place) next() cluster.Name {
	return cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", p.made.Add(1))}
}

// restore restores the backup.
func (p *place) restore(t *testing.T, to cluster.Name, args ...string) ending {
	t.Helper()
	return p.run(within(t), t, append([]string{"restore", round.BackupID, "--to", to.String(), "--timeout", "1m"}, args...)...)
}

// resolve resolves a cluster in recovery mode to the backup.
func (p *place) resolve(t *testing.T, name cluster.Name, args ...string) ending {
	t.Helper()
	return p.run(within(t), t, append([]string{"resolve", name.String(), "--backup", round.BackupID, "--timeout", "1m"}, args...)...)
}

// halfway makes a cluster whose stores are up in recovery mode and hold unresolved data: a restore that fails at
// its first look at them and keeps what it made.
func (p *place) halfway(t *testing.T) cluster.Name {
	t.Helper()
	name := p.next()
	require.NoError(t, p.faults.Add(fault.Rule{Point: "tikv.*.ReadRegionMeta", Code: "PermissionDenied", Times: -1}))
	e := p.restore(t, name, "--keep-on-failure")
	require.NotZero(t, e.code, e.String())
	p.reached(t)
	require.True(t, p.cluster(name).PD.Recovering())
	return name
}

// cluster is the processes of a cluster that is there.
func (p *place) cluster(name cluster.Name) *testbed.Cluster { return p.Bed().Nodes.Cluster(name) }

// fault puts a rule into force.
func (p *place) fault(t *testing.T, r fault.Rule) {
	t.Helper()
	require.NoError(t, p.faults.Add(r))
}

// reached requires that every fault struck, and ends them all.
func (p *place) reached(t *testing.T) {
	t.Helper()
	require.Empty(t, p.faults.Unreached(), "faults that never happened")
	p.faults.Clear()
}

// verify proves the restored cluster.
func (p *place) verify(t *testing.T, name cluster.Name) {
	t.Helper()
	require.NoError(t, p.Verify(within(t), name))
}

// untouched requires that no store of the cluster was asked to change its data.
func (p *place) untouched(t *testing.T, name cluster.Name) {
	t.Helper()
	for _, s := range p.cluster(name).Stores() {
		require.NotContains(t, s.MutatingCalls(), "KvPrepareFlashbackToVersion")
		require.NotContains(t, s.MutatingCalls(), "KvFlashbackToVersion")
	}
}

// line is what the tests read of a line of --progress json.
type line struct {
	Step, Unit  string
	Done, Total int64
	ETASeconds  *float64
}

// progress runs one command line that has to succeed, and returns its progress.
func (p *place) progress(t *testing.T, args ...string) []line {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(args, "--storage", round.Storage, "--endpoint-url", p.Bed().AWS(), "--region", testbed.Region,
		"--kubeconfig", p.Bed().Kubeconfig(), "--progress", "json")
	code := cli.Run(within(t), args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
	require.Zero(t, code, stderr.String())
	var lines []line
	for text := range strings.Lines(stderr.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}
