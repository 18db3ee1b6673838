package leak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Program starts tisnap with these arguments and waits for it. kill, when called, ends it at once, as the
// kernel does.
type Program func(ctx context.Context, bed *testbed.Testbed, args []string, out io.Writer) (code int, err error)

// Config is one run. Program and Dir are required.
type Config struct {
	Dir     string
	Program Program
	// Kill ends the program that runs now, as kill -9 does; nil makes no kills.
	Kill  func()
	Seed  int64
	Scale float64 // 0 is 20
}

// Result is what happened.
type Result struct {
	Faults  []string // those that struck
	Backup  int      // exit code; -1 of a program that was killed
	Restore int      // exit code; -1 killed, -2 not tried
	Deleted int      // exit code of the delete of the older backup; -2 not tried
	GC      bool     // gc had to run
	Output  string
}

// String is a line for a person.
func (r *Result) String() string {
	gc := ""
	if r.GC {
		gc = ", then gc"
	}
	return fmt.Sprintf("backup %d, restore %d, delete %d%s; %d faults struck (%s)",
		r.Backup, r.Restore, r.Deleted, gc, len(r.Faults), strings.Join(r.Faults, " "))
}

const storage = "s3://" + testbed.Bucket + "/leak"

var (
	source = cluster.Name{Namespace: "tidb", Name: "prod"}
	target = cluster.Name{Namespace: "tidb", Name: "copy"}
)

// state is a run under way.
type state struct {
	cfg    Config
	rng    *rand.Rand
	bed    *testbed.Testbed
	store  objstore.Store
	faults *fault.Plan
	struck []*striking
	out    bytes.Buffer
	result Result
}

// Run makes a backup of a small cluster, a restore of it and the delete of an older backup under faults, runs
// gc if one of them failed, and proves the balance. An error names the seed.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Scale == 0 {
		cfg.Scale = 20
	}
	s := &state{
		cfg: cfg, faults: &fault.Plan{},
		rng:    rand.New(rand.NewPCG(uint64(cfg.Seed), 0x1eaf)),
		result: Result{Backup: -2, Restore: -2, Deleted: -2},
	}
	err := s.run(ctx)
	if s.bed != nil {
		s.bed.Close()
	}
	s.result.Output = s.out.String()
	if err != nil {
		return &s.result, fmt.Errorf("seed %d: %w", cfg.Seed, err)
	}
	return &s.result, nil
}

func (s *state) run(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.addFaults(); err != nil {
		return err
	}
	failed := false
	for _, step := range []struct {
		code *int
		args []string
	}{
		{&s.result.Backup, []string{"backup", source.String(), "--name", "new", "--stuck", "20s", "--lease", "5s", "--max-hold", "20s"}},
		{&s.result.Restore, s.restoreArgs()},
		{&s.result.Deleted, []string{"delete", "old", "--yes", "--delete-rate", "100", "--last"}},
	} {
		code, err := s.tisnap(ctx, step.args...)
		if err != nil {
			return err
		}
		*step.code = code
		failed = failed || code != 0
	}
	for _, r := range s.struck {
		if r.hit.Load() {
			s.result.Faults = append(s.result.Faults, r.name)
		}
	}
	s.faults.Clear()
	if failed {
		if err := s.collect(ctx); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

// restoreArgs restore the older backup, which exists whatever became of the new one.
func (s *state) restoreArgs() []string {
	args := []string{"restore", "old", "--to", target.String(), "--timeout", "3m"}
	if s.rng.IntN(3) == 0 {
		args = append(args, "--after-restore-iops", "4000")
	}
	if s.rng.IntN(3) == 0 {
		args = append(args, "--initialization-rate", "300")
	}
	if s.rng.IntN(3) == 0 {
		args = append(args, "--target-az", "us-west-2b")
	}
	return args
}

// collect is what a person does after a failure: the dead run's lock expires, and gc runs until it ends with 0.
func (s *state) collect(ctx context.Context) error {
	s.result.GC = true
	for _, name := range []cluster.Name{source, target} {
		if err := expire(ctx, s.store, name); err != nil {
			return err
		}
	}
	// As long as EC2 may hide a new id, 0 is too young.
	if err := wait.For(ctx, s.real(hidden)); err != nil {
		return err
	}
	for try := range 3 {
		code, err := s.tisnap(ctx, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
		if err != nil {
			return err
		}
		if code == 0 {
			return nil
		}
		if try == 2 {
			return fmt.Errorf("gc ended with %d", code)
		}
	}
	return nil
}

// expire ends the lock of a run that was killed, as time does.
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

// settle waits until volumes that were deleted are gone and those that are being attached are attached.
func (s *state) settle(ctx context.Context) error {
	return Await(ctx, s.bed, s.store, 10*time.Second)
}

func (s *state) tisnap(ctx context.Context, args ...string) (int, error) {
	fmt.Fprintf(&s.out, "\n$ tisnap %s\n", strings.Join(args, " "))
	code, err := s.cfg.Program(ctx, s.bed, append(args, "--storage", storage, "--progress", "plain"), &s.out)
	fmt.Fprintf(&s.out, "(ended with %d)\n", code)
	return code, err
}

func (s *state) real(virtual time.Duration) time.Duration {
	return time.Duration(float64(virtual) / s.cfg.Scale)
}
