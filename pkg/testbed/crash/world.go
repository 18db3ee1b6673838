package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	storage  = "s3://" + testbed.Bucket + "/crash"
	baseline = "baseline" // the sealed backup that restores are of
	lease    = 3 * time.Second
)

var source = cluster.Name{Namespace: "tidb", Name: "prod"}

// world is a testbed with a cluster, its rows and a sealed backup of it, in which one cell after another is tried.
type world struct {
	program  *Program
	operator int // the generation of TiDB Operator that its clusters are of
	faults   *fault.Plan
	bed      *testbed.Testbed
	store    objstore.Store
	rows     *workload.Copy
	n        int      // of names used
	init     []string // more args of archive init
	out      bytes.Buffer
}

// newWorld starts it. Close it.
func newWorld(ctx context.Context, dir string, program *Program, operator int) (*world, error) {
	w := &world{program: program, operator: operator, faults: &fault.Plan{}}
	rules := ebstest.QuickRules()
	rules.SnapshotSpacing = 0 // 15 s of it is another test
	// A credit of fast snapshot restore takes minutes of the program's own clock.
	rules.FastRestore = ebstest.FastRestoreRules{Snapshots: 100, IDsInCall: 10, Aged: 30 * 24 * time.Hour}
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: dir, Nodes: 6, Scale: 50, Seed: 1, Faults: w.faults, Rules: rules, Operator: operator,
		TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond, TickInterval: 40 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	w.bed = bed
	if err := w.fill(ctx); err != nil {
		bed.Close()
		return nil, err
	}
	return w, nil
}

// fill makes the cluster, its rows, and the backup that restores are of.
func (w *world) fill(ctx context.Context) error {
	c, err := w.bed.CreateCluster(ctx, source, 3)
	if err != nil {
		return err
	}
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 200, Clients: 2, Regions: 6, Seed: 1})
	if err != nil {
		return err
	}
	defer func() { _ = load.Close() }() // its rows are read by then
	if err := load.Load(ctx); err != nil {
		return err
	}
	db, err := load.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := addTable(ctx, db); err != nil {
		return err
	}
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	if w.rows, err = load.CopyAt(ctx, now); err != nil {
		return err
	}
	if err := c.AwaitResolved(ctx, now); err != nil {
		return err
	}
	w.store, err = objstore.Open(ctx, storage, objstore.Config{Region: testbed.Region, Endpoint: w.bed.AWS()})
	if err != nil {
		return err
	}
	return w.succeeds(ctx, append(w.backupArgs(baseline), "--tag", baseline)...)
}

// addTable adds a table of SQL, for drills to check.
func addTable(ctx context.Context, db *workload.Cluster) error {
	table := &tidbtest.Table{ID: 201, Schema: "shop", Name: "item", Key: "id", Columns: []string{"name"}}
	made, err := table.Create()
	if err != nil {
		return err
	}
	row, err := table.Put(1, nil, map[string]string{"name": "first"})
	return errors.Join(err, db.Write(ctx, made), db.Write(ctx, row))
}

// tisnap runs one command; -1 is a process that was killed.
func (w *world) tisnap(ctx context.Context, args ...string) (int, error) {
	fmt.Fprintf(&w.out, "$ tisnap %s\n", strings.Join(args, " "))
	code, err := w.program.Run(ctx, w.bed, commandLine(args), &w.out)
	fmt.Fprintf(&w.out, "(ended with %d)\n", code)
	return code, err
}

// commandLine completes the arguments of a command, which is on the world's storage if it names no other.
func commandLine(args []string) []string {
	if !slices.Contains(args, "--storage") {
		args = append(args, "--storage", storage)
	}
	return append(args, "--progress", "plain")
}

// succeeds runs one command that has to end with 0.
func (w *world) succeeds(ctx context.Context, args ...string) error {
	code, err := w.tisnap(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("tisnap %s ended with %d", args[0], code)
	}
	return err
}

func (w *world) backupArgs(name string) []string {
	return []string{"backup", source.String(), "--name", name, "--lease", lease.String(), "--max-hold", "20s", "--steady", "0s",
		"--consistent-now", "--on-import", "wait", "--stuck", "30s"}
}

// restoreArgs has a limit above the minute that it takes to know that the volume of a client token is gone.
func (w *world) restoreArgs(backup string, to cluster.Name) []string {
	return []string{"restore", backup, "--to", to.String(), "--timeout", "2m", "--after-restore-iops", "4000", "--fsr"}
}

// expire ends the lock of a run that was killed, as time does.
func (w *world) expire(ctx context.Context, name cluster.Name) error {
	return expire(ctx, w.store, name)
}

func expire(ctx context.Context, store objstore.Store, name cluster.Name) error {
	lock, _, err := runlock.Read(ctx, store, name)
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return runlock.Break(ctx, store, name, lock.Epoch)
}

// awaitRelease waits until nothing is held of the cluster: within one lease.
func (w *world) awaitRelease(ctx context.Context, name cluster.Name) error {
	ctx, cancel := context.WithTimeout(ctx, lease+time.Second)
	defer cancel()
	return wait.Until(ctx, wait.Every(20*time.Millisecond), func() (bool, error) {
		c := w.bed.Nodes.Cluster(name)
		if c == nil || len(c.Held()) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("%s is held longer than one lease: %v", name, c.Held())
	})
}

// balanced waits until EC2 has exactly what sealed manifests and clusters name.
func (w *world) balanced(ctx context.Context) error {
	return leak.Await(ctx, w.bed, w.store, 10*time.Second)
}

// replicasEqual bounds the wait for a cluster whose stores still apply.
const replicasEqual = time.Minute

// verify compares every row of a cluster with those of the source, and each store's own data with its leaders'.
func (w *world) verify(ctx context.Context, name cluster.Name) error {
	c, err := w.bed.AwaitCluster(ctx, name)
	if err != nil {
		return err
	}
	db, err := workload.Connect(ctx, c.PD.URLs())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // only read from
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	got, err := db.CopyAt(ctx, now)
	if err != nil {
		return err
	}
	if len(got.Rows) != len(w.rows.Rows) {
		return fmt.Errorf("%s has %d rows, the source has %d", name, len(got.Rows), len(w.rows.Rows))
	}
	for key, row := range w.rows.Rows {
		if got.Rows[key] != row {
			return fmt.Errorf("%s: %s is %+v, and %+v in the source", name, key, got.Rows[key], row)
		}
	}
	if held := c.Held(); len(held) > 0 {
		return fmt.Errorf("%s is held: %v", name, held)
	}
	ctx, cancel := context.WithTimeout(ctx, replicasEqual)
	defer cancel()
	_, err = c.AwaitEqualReplicas(ctx)
	return failure.Annotate(err, "compare replicas", name.String())
}
