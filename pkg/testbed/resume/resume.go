package resume

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// maxTries is how often a run is resumed. The last tries are without faults.
const maxTries = 5

// Program runs tisnap with these arguments in a process of its own; one that was killed ends with -1.
type Program func(ctx context.Context, bed *testbed.Testbed, args []string, out io.Writer) (exitCode int, err error)

// Config is one run. All fields are required.
type Config struct {
	From    *round.Prepared
	Faults  *fault.Plan // of the testbed
	Regions int         // of the backup, about
	Program Program
	Kill    func() // kills the program that runs, if one does
	Seed    int64
	// Timeout is the program's --timeout: how long nothing may change.
	Timeout time.Duration
}

// Result is what a run met.
type Result struct {
	Troubles []string // that struck or might have
	Kills    int
	Resolves int // runs of `tisnap resolve`
	Took     time.Duration
	// Unchanged is how many regions the last run did not flash back, with those of the runs that it resumed.
	Unchanged int
	Output    string
}

// String is one line about the run.
func (r *Result) String() string {
	return fmt.Sprintf("right after %d kills and %d resolves in %s, %d regions unchanged: %s",
		r.Kills, r.Resolves, r.Took.Round(100*time.Millisecond), r.Unchanged, strings.Join(r.Troubles, "; "))
}

// state is a run under way.
type state struct {
	Config
	rng    *rand.Rand
	name   cluster.Name
	out    *bytes.Buffer
	result Result
	kills  atomic.Int64
	beside sync.WaitGroup // restarts of stores and PD
}

// Run restores the backup under faults, resolves until the cluster serves, proves it, and deletes it.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	s := &state{
		Config: cfg, out: &bytes.Buffer{},
		rng:  rand.New(rand.NewPCG(uint64(cfg.Seed), 7)),
		name: cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", cfg.Seed)},
	}
	start := time.Now()
	err := s.run(ctx)
	s.Faults.Clear()
	s.beside.Wait()
	s.result.Kills, s.result.Took, s.result.Output = int(s.kills.Load()), time.Since(start), s.out.String()
	return &s.result, err
}

func (s *state) run(ctx context.Context) error {
	if err := s.trouble(ctx, 1+s.rng.IntN(4)); err != nil {
		return err
	}
	code, err := s.program(ctx, "restore", round.BackupID, "--to", s.name.String(), "--keep-on-failure")
	for try := 1; err == nil && !done(code); try++ {
		if try > maxTries {
			return fmt.Errorf("tisnap resolve ended with %d, without a fault", code)
		}
		s.Faults.Clear()
		s.beside.Wait()
		if try <= 2 && s.rng.IntN(3) == 0 {
			if err := s.trouble(ctx, 1+s.rng.IntN(2)); err != nil {
				return err
			}
		}
		s.result.Resolves++
		code, err = s.program(ctx, "resolve", s.name.String(), "--backup", round.BackupID, "--force")
	}
	if err != nil {
		return err
	}
	s.Faults.Clear()
	s.beside.Wait()
	if _, err := s.From.Bed().AwaitCluster(ctx, s.name); err != nil {
		return err
	}
	if err := s.From.Verify(ctx, s.name); err != nil {
		return err
	}
	_, err = s.From.Bed().DestroyCluster(ctx, s.name)
	return err
}

// unchangedLine is the report's line about the regions.
var unchangedLine = regexp.MustCompile(`regions: \d+, of which (\d+) were unchanged`)

// done also takes a report that could not be written for a cluster that serves.
func done(code int) bool { return code == 0 || code == 3 }

func (s *state) program(ctx context.Context, args ...string) (int, error) {
	fmt.Fprintf(s.out, "\n$ tisnap %s\n", strings.Join(args, " "))
	args = append(args, "--storage", round.Storage, "--timeout", s.Timeout.String(), "--progress", "plain", "--log-level", "info")
	begin := s.out.Len()
	code, err := s.Program(ctx, s.From.Bed(), args, s.out)
	if found := unchangedLine.FindSubmatch(s.out.Bytes()[begin:]); found != nil {
		s.result.Unchanged, _ = strconv.Atoi(string(found[1])) // digits
	}
	fmt.Fprintf(s.out, "exit code %d\n", code)
	return code, err
}

// trouble puts n faults into force.
func (s *state) trouble(ctx context.Context, n int) error {
	h := hands{
		kill: func() {
			s.kills.Add(1)
			s.Kill()
		},
		store:   func(oom bool) { s.beside.Go(func() { s.restartStore(ctx, oom) }) },
		pd:      func(crash bool) { s.beside.Go(func() { s.changeLeader(crash) }) },
		regions: s.Regions,
	}
	for range n {
		t := draw(s.rng, h)
		s.result.Troubles = append(s.result.Troubles, t.String())
		fmt.Fprintf(s.out, "fault: %s\n", t)
		if err := s.Faults.Add(t.rule); err != nil {
			return err
		}
	}
	return nil
}

// restartStore deletes a store's pod, before which its process may be killed.
func (s *state) restartStore(ctx context.Context, oom bool) {
	c := s.From.Bed().Nodes.Cluster(s.name)
	if c == nil {
		return
	}
	pods := c.Pods()
	if len(pods) == 0 {
		return
	}
	pod := pods[int(s.Seed)%len(pods)]
	if oom {
		if store := c.Store(pod); store != nil {
			store.Kill()
		}
	}
	if err := s.From.Bed().RestartStore(ctx, s.name, pod); err != nil && ctx.Err() == nil {
		panic(fmt.Sprintf("seed %d: restart %s: %v", s.Seed, pod, err))
	}
}

// changeLeader makes another member of PD the leader, by a transfer or by a crash of the one that leads.
func (s *state) changeLeader(crash bool) {
	c := s.From.Bed().Nodes.Cluster(s.name)
	if c == nil {
		return
	}
	leader := c.PD.Leader()
	if leader < 0 {
		return
	}
	if !crash {
		_ = c.PD.TransferLeader((leader + 1) % len(c.PD.URLs())) // that member may be down: then there is no change
		return
	}
	c.PD.KillMember(leader)
	if err := c.PD.StartMember(leader); err != nil {
		panic(fmt.Sprintf("seed %d: start PD: %v", s.Seed, err))
	}
}
