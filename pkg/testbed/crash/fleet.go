package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// FleetConfig is one testbed with an archive repository of two clusters. All fields are required.
type FleetConfig struct {
	Tisnap string // path of the shipped program
	Seed   int64
}

// FleetResult is what was done in the repository.
type FleetResult struct {
	Archives, Forgotten int // that were made
	Killed, Suspended   int // processes that were to be, before they ended
	Aged                int // leases that looked dead, of processes that live and of others
	Rewritten           int // archives that a prune replaced
	Output              string
}

const (
	fleetWriters, fleetPruners = 3, 2
	// Of each writer and pruner.
	fleetArchives, fleetPrunes, fleetVerifies = 3, 5, 3
	// takes is about how long a command takes.
	takes        = 3 * time.Second
	exitNotFound = 4 // there is no such archive any more
	// tries is how often a command is given again.
	tries = 20
)

// fleet is a repository that three writers, two prunes and a reader use at the same time.
type fleet struct {
	*scene
	flags    []string
	identity *age.X25519Identity
	repo     *repository.Repository
	clusters []cluster.Name

	mu        sync.Mutex // guards all below
	rng       *rand.Rand
	seen      map[string]bool // archives that were there
	forgotten map[string]bool // and that a command was to forget
	result    *FleetResult
	log       bytes.Buffer
}

// Fleet archives backups of two clusters into one repository, by three writers at a time, beside two prunes that rewrite
// packs, beside forgets and verifications. Processes are killed and suspended at random instants, and leases look dead,
// of processes that are and of others. Each archive that was there has to stay whole unless it was forgotten, and after
// two quiet prunes nothing is left that none needs. Before these some are damaged, and repaired by two commands at a
// time.
func Fleet(ctx context.Context, cfg FleetConfig) (*FleetResult, error) {
	r := &FleetResult{}
	dir, err := os.MkdirTemp("", "tisnap-fleet-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	w, err := newWorld(ctx, dir, &Program{Path: cfg.Tisnap}, 1)
	if err != nil {
		return r, err
	}
	defer w.bed.Close()
	f := &fleet{
		scene: w.scene(Archive), clusters: []cluster.Name{source, {Namespace: "tidb", Name: "other"}},
		rng: rand.New(rand.NewPCG(uint64(cfg.Seed), 29)), seen: map[string]bool{}, forgotten: map[string]bool{}, result: r,
	}
	if err = f.prepare(ctx); err == nil {
		err = f.play(ctx)
	}
	if err == nil {
		err = f.settled(ctx)
	}
	r.Archives, r.Forgotten = len(f.seen), len(f.forgotten)
	r.Output = w.out.String() + f.log.String()
	return r, err
}

// prepare makes the second cluster, two backups of each, and the repository.
func (f *fleet) prepare(ctx context.Context) error {
	if _, err := f.bed.CreateCluster(ctx, f.clusters[1], 3); err != nil {
		return err
	}
	for i, of := range f.clusters {
		for n := range 2 {
			args := f.backupArgs(backupOf(i, n))
			args[1] = of.String()
			if err := f.succeeds(ctx, args...); err != nil {
				return err
			}
		}
		if err := f.fillBackups(ctx, i); err != nil {
			return err
		}
	}
	var err error
	if f.identity, err = age.GenerateX25519Identity(); err != nil {
		return err
	}
	file := filepath.Join(filepath.Dir(f.bed.Kubeconfig()), "identity")
	if err := os.WriteFile(file, []byte(f.identity.String()+"\n"), 0o600); err != nil {
		return err
	}
	err = f.succeeds(ctx, "archive", "init", "--repo", f.scene.repo(), "--recipient", f.identity.Recipient().String())
	if err != nil {
		return err
	}
	f.flags = []string{"--repo", f.scene.repo(), "--repo-identity", file}
	return nil
}

func backupOf(cluster, n int) string { return fmt.Sprintf("of-%d-%d", cluster, n) }

// play lets all use the repository, until each has done its part.
func (f *fleet) play(ctx context.Context) error {
	store, err := objstore.Open(ctx, f.scene.repo(), objstore.Config{Region: testbed.Region, Endpoint: f.bed.AWS()})
	if err != nil {
		return err
	}
	if c, ok := store.(interface{ Close() }); ok {
		defer c.Close()
	}
	if f.repo, err = repository.Open(ctx, store, f.identity); err != nil {
		return err
	}
	if err := f.waste(ctx); err != nil {
		return err
	}
	outer := ctx
	all, ctx := errgroup.WithContext(ctx)
	for i := range fleetWriters {
		all.Go(func() error { return f.write(ctx, i) })
	}
	for range fleetPruners {
		all.Go(func() error { return f.each(ctx, fleetPrunes, f.prune) })
	}
	all.Go(func() error {
		return f.each(ctx, fleetVerifies, func(ctx context.Context) error {
			_, err := f.run(ctx, []int{0, exitConflict, exitNotFound}, "verify") // there may be none yet
			return err
		})
	})
	if err := all.Wait(); err != nil {
		return err
	}
	return f.repairs(outer)
}

// each calls do so many times.
func (f *fleet) each(ctx context.Context, n int, do func(context.Context) error) error {
	for range n {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// write archives backups of one cluster, one after the other, each by the same command until it ends with 0. Sometimes
// it then forgets an archive.
func (f *fleet) write(ctx context.Context, writer int) error {
	of := writer % len(f.clusters)
	about := journal.About{Cluster: f.clusters[of], Operation: journal.Archive}
	for n := range fleetArchives {
		code := -1
		backup, run := backupOf(of, f.random(2)), fmt.Sprintf("run-%d-%d", writer, n)
		for try := 1; code != 0; try++ {
			var err error
			if code, err = f.run(ctx, []int{0, exitConflict}, "create", backup, "--run-id", run, "--lock-wait", "20s"); err != nil {
				return err
			}
			if try == tries {
				return fmt.Errorf("run %s did not end with 0 in %d tries", run, tries)
			}
			if code == -1 {
				if err := f.expire(ctx, about.Lock()); err != nil {
					return err
				}
			}
		}
		if f.random(2) == 0 {
			if err := f.forget(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// waste makes packs that are mostly unused, while nothing else uses the repository.
func (f *fleet) waste(ctx context.Context) error {
	for i := range 6 {
		id := fmt.Sprintf("shared-%d", i)
		if err := sharePack(ctx, f.repo, id, id+"-few", id+"-other"); err != nil {
			return err
		}
		if err := prune.Forget(ctx, f.repo, id); err != nil {
			return err
		}
	}
	return nil
}

// prune prunes once; before that, sometimes all leases look dead.
func (f *fleet) prune(ctx context.Context) error {
	if f.random(2) == 0 {
		if err := f.age(ctx); err != nil {
			return err
		}
	}
	unused := []string{"0%", "1%", "10%"}[f.random(3)]
	_, err := f.run(ctx, []int{0, exitConflict}, "prune", "--yes", "--min-age", "0s", "--break-leases-after", "2h", "--max-unused", unused)
	return err
}

// forget forgets all archives of a backup, so that packs which those of the other one use are partly unused.
func (f *fleet) forget(ctx context.Context) error {
	ids, err := f.repo.Archives(ctx)
	backup := backupOf(f.random(len(f.clusters)), f.random(2))
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, backup) })
	if err != nil || len(ids) == 0 {
		return err
	}
	f.mu.Lock()
	for _, id := range ids {
		f.forgotten[id] = true
	}
	f.mu.Unlock()
	_, err = f.run(ctx, []int{0, exitNotFound}, append([]string{"forget", "--yes"}, ids...)...)
	return err
}

// run runs a command on the repository in a process that is sometimes killed or suspended. It has to end with one of the
// codes, or by the kill.
func (f *fleet) run(ctx context.Context, codes []int, args ...string) (int, error) {
	program := &Program{Path: f.program.Path}
	at := time.Duration(f.random(int(takes)))
	switch f.random(4) {
	case 0:
		defer f.signal(program, at, syscall.SIGKILL, &f.result.Killed)()
	case 1:
		defer f.signal(program, at, syscall.SIGSTOP, &f.result.Suspended)()
		defer f.signal(program, at+time.Second+time.Duration(f.random(int(takes))), syscall.SIGCONT, nil)()
	}
	var out bytes.Buffer
	code, err := program.Run(ctx, f.bed, commandLine(append(append([]string{"archive"}, args...), f.flags...)), &out)
	f.mu.Lock()
	fmt.Fprintf(&f.log, "$ tisnap archive %v\n%s(ended with %d)\n", args, out.String(), code)
	if found := regexp.MustCompile(`replaces (\d+) archives`).FindSubmatch(out.Bytes()); found != nil {
		replaced, _ := strconv.Atoi(string(found[1])) // digits
		f.result.Rewritten += replaced
	}
	f.mu.Unlock()
	if err != nil {
		return code, err
	}
	if err := f.look(ctx); err != nil {
		return code, err
	}
	for _, allowed := range append(codes, -1) {
		if code == allowed {
			return code, nil
		}
	}
	return code, fmt.Errorf("archive %s ended with %d:\n%s", args[0], code, out.String())
}

// signal sends a signal to the program after a time, unless it was stopped before, and counts that.
func (f *fleet) signal(p *Program, after time.Duration, s syscall.Signal, count *int) (stop func()) {
	timer := time.AfterFunc(after, func() {
		p.Signal(s)
		if count != nil {
			f.mu.Lock()
			*count++
			f.mu.Unlock()
		}
	})
	return func() { timer.Stop() }
}

// look notes the archives that are there.
func (f *fleet) look(ctx context.Context) error {
	ids, err := f.repo.Archives(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.seen[id] = true
	}
	return err
}

func (f *fleet) random(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}
