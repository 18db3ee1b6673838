package crash

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// maxChaos is how many processes of one command meet faults and are ended; those after them do not.
const maxChaos = 3

// maxTries is how many processes one command may need in all.
const maxTries = maxChaos + 3

// ChaosConfig is one round. All fields are required.
type ChaosConfig struct {
	Tisnap   string // path of the shipped program
	Seed     int64
	Operator int // the generation of TiDB Operator that makes the clusters
}

// ChaosResult is what a round met.
type ChaosResult struct {
	Processes int
	Met       []string // the faults and ends, in their order
	Output    string
}

// chaos is a round under way; it is the round's driver.
type chaos struct {
	operator int
	rng      *rand.Rand
	program  *Program
	faults   *fault.Plan
	bed      *testbed.Testbed
	store    objstore.Store
	backup   cluster.BackupID
	out      bytes.Buffer
	result   ChaosResult
}

// Chaos backs a cluster up under load and restores it, with processes that are ended at random while one call of S3, EC2,
// PD, TiKV and Kubernetes each goes wrong. The same command is given again until it succeeds. After each process nothing
// may be held for longer than a lease, and no more than one backup sealed; at the end every row has to be right, no run
// unfinished, and EC2 has exactly what sealed manifests and clusters name. An error names what did not hold.
func Chaos(ctx context.Context, cfg ChaosConfig) (*ChaosResult, error) {
	dir, err := os.MkdirTemp("", "tisnap-chaos-")
	if err != nil {
		return &ChaosResult{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	c := &chaos{
		operator: cfg.Operator,
		rng:      rand.New(rand.NewPCG(uint64(cfg.Seed), 13)),
		program:  &Program{Path: cfg.Tisnap}, faults: &fault.Plan{},
	}
	_, err = round.Run(ctx, round.Config{
		Dir: dir, Seed: cfg.Seed, Scale: 50, Faults: c.faults, Accounts: 300, Regions: 8, Clients: 2, Driver: c, Operator: cfg.Operator,
		TiKV: func(o *tikvtest.Options) {
			o.RecoverCheckInterval, o.TickInterval = 200*time.Millisecond, 40*time.Millisecond
		},
	})
	c.result.Output = c.out.String()
	return &c.result, err
}

// Backup implements round.Driver: it is backed up until one backup is sealed.
func (c *chaos) Backup(ctx context.Context, bed *testbed.Testbed) (cluster.TS, error) {
	c.bed = bed
	var err error
	if c.store, err = objstore.Open(ctx, round.Storage, objstore.Config{Region: testbed.Region, Endpoint: bed.AWS()}); err != nil {
		return 0, err
	}
	var sealed *catalog.Entry
	err = c.until(ctx, round.Source(), 35, []string{"backup", round.Source().String(), "--lease", lease.String(), "--max-hold", "20s", "--steady", "0s",
		"--consistent-now", "--timeout", "1m"}, func(code int) (bool, error) {
		if sealed, err = c.sealed(ctx); err != nil {
			return false, err
		}
		if code == 0 && sealed == nil {
			return false, fmt.Errorf("the backup ended with 0, and nothing is sealed")
		}
		return sealed != nil && code == 0, nil
	})
	if err != nil {
		return 0, err
	}
	c.backup = sealed.ID
	return sealed.BackupTS, c.nothingLeft(ctx)
}

// Restore implements round.Driver. A restore that fails once its cluster serves is finished by the command that it names.
func (c *chaos) Restore(ctx context.Context, _ *testbed.Testbed) error {
	unfinished := false
	err := c.until(ctx, round.Target(), 60, []string{"restore", string(c.backup), "--to", round.Target().String(), "--timeout", "1m",
		"--volume-type", "gp3", "--volume-iops", "7000", "--volume-throughput", "400"},
		func(code int) (bool, error) {
			if restored, err := c.restored(ctx, code); restored || err != nil || code != exitConflict {
				return restored, err
			}
			failed, err := runs.Resolved(ctx, c.store, round.Target())
			unfinished = failed != nil && failed.Backup == c.backup && strings.Contains(c.out.String(), string(failed.ID)+" has restored the data")
			return unfinished, err
		})
	if err == nil && unfinished {
		err = c.until(ctx, round.Target(), 20, []string{"resolve", round.Target().String(), "--backup", string(c.backup), "--timeout", "1m"},
			func(code int) (bool, error) { return c.restored(ctx, code) })
	}
	if err == nil {
		_, err = c.bed.AwaitCluster(ctx, round.Target())
	}
	if err != nil {
		return err
	}
	return c.nothingLeft(ctx)
}

// restored reports whether the command that ended with the code has restored the cluster. A refused one has, too, as its
// process before may have been killed after its last record, and before it could report that.
func (c *chaos) restored(ctx context.Context, code int) (bool, error) {
	if code != exitConflict {
		return code == 0, nil
	}
	done, err := runs.Restored(ctx, c.store, round.Target())
	return done != nil && done.Backup == c.backup && strings.Contains(c.out.String(), string(done.ID)+" has restored backup"), err
}

// sealed is the newest sealed backup; nil if there is none. One that is sealed has all of its snapshots, completed.
func (c *chaos) sealed(ctx context.Context) (*catalog.Entry, error) {
	entries, err := catalog.Catalog{Store: c.store}.List(ctx)
	if err != nil {
		return nil, err
	}
	var found *catalog.Entry
	for i := range entries {
		if entries[i].State == catalog.StateSealed {
			found = &entries[i]
			if n := len(c.bed.Volumes(round.Source())); found.Snapshots != n {
				return nil, fmt.Errorf("backup %s is sealed with %d snapshots of %d volumes", found.ID, found.Snapshots, n)
			}
		}
	}
	return found, nil
}

// until repeats the command until done reports true.
func (c *chaos) until(ctx context.Context, locked cluster.Name, records int, args []string, done func(code int) (bool, error)) error {
	for try := range maxTries {
		if try < maxChaos {
			if err := c.trouble(records); err != nil {
				return err
			}
		}
		code, err := c.tisnap(ctx, args...)
		c.faults.Watch(nil)
		c.faults.Clear()
		if err != nil {
			return err
		}
		if err := c.awaitRelease(ctx, locked); err != nil {
			return err
		}
		if ended, err := done(code); ended || err != nil {
			return err
		}
		if err := c.expire(ctx, locked); err != nil {
			return err
		}
	}
	return fmt.Errorf("tisnap %s did not succeed in %d processes, the last ones without faults", args[0], maxTries)
}

// trouble puts faults of all systems, and most times an end, into force.
func (c *chaos) trouble(records int) error {
	for _, rule := range drawFaults(c.rng, c.operator) {
		c.note("%s %s, call %d, %d times", rule.Position, rule.Point, rule.Nth, rule.Times)
		if err := c.faults.Add(rule); err != nil {
			return err
		}
	}
	if e := drawEnd(c.rng, records); c.rng.IntN(4) > 0 {
		c.note("%s", e)
		e.send = c.program.Signal
		c.faults.Watch(e.watch)
	}
	return nil
}

func (c *chaos) note(format string, args ...any) {
	c.result.Met = append(c.result.Met, fmt.Sprintf(format, args...))
	fmt.Fprintf(&c.out, "trouble: "+format+"\n", args...)
}

// tisnap runs one command; -1 is a process that was killed.
func (c *chaos) tisnap(ctx context.Context, args ...string) (int, error) {
	c.result.Processes++
	fmt.Fprintf(&c.out, "$ tisnap %s\n", strings.Join(args, " "))
	code, err := c.program.Run(ctx, c.bed, append(args, "--storage", round.Storage, "--progress", "plain"), &c.out)
	fmt.Fprintf(&c.out, "(ended with %d)\n", code)
	return code, err
}

// awaitRelease waits until nothing is held: what a process that was killed holds runs out within its lease.
func (c *chaos) awaitRelease(ctx context.Context, name cluster.Name) error {
	if name == round.Target() {
		return nil // a cluster in recovery mode belongs to the restore alone until it serves
	}
	ctx, cancel := context.WithTimeout(ctx, lease+10*time.Second)
	defer cancel()
	return wait.Until(ctx, wait.Every(20*time.Millisecond), func() (bool, error) {
		here := c.bed.Nodes.Cluster(name)
		if here == nil || len(here.Held()) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("%s is held longer than one lease: %v", name, here.Held())
	})
}

// expire ends the lock of a process that was killed, as time does.
func (c *chaos) expire(ctx context.Context, name cluster.Name) error {
	lock, _, err := runlock.Read(ctx, c.store, name)
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return runlock.Break(ctx, c.store, name, lock.Epoch)
}

// nothingLeft proves, after a gc, that EC2 has what is named and nothing else, and that no run is left unfinished.
func (c *chaos) nothingLeft(ctx context.Context) error {
	code, err := c.tisnap(ctx, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
	if err != nil || code != 0 {
		return fmt.Errorf("tisnap gc ended with %d: %w", code, err)
	}
	all, err := runs.List(ctx, c.store)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.State != runs.Done && r.State != runs.Failed {
			return fmt.Errorf("run %s (%s) is %s", r.ID, r.Operation, r.State)
		}
	}
	return leak.Await(ctx, c.bed, c.store, 30*time.Second)
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
