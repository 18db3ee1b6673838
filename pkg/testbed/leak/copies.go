package leak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	identity "github.com/tisnap/tisnap/pkg/storage"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// CopyResult is what happened to a copy.
type CopyResult struct {
	Route     string
	Snapshots int
	Faults    []string // those that struck
	Codes     []int    // of the copy's processes; -1 of one that was killed
	GC        bool     // the copy was collected before it was made again
	Lost      bool     // the source lost a snapshot on the way
	Sealed    bool
	Output    string
}

// String is a line for a person.
func (r *CopyResult) String() string {
	text := fmt.Sprintf("%s of %d snapshots ended with %v", r.Route, r.Snapshots, r.Codes)
	if r.GC {
		text += ", with a gc"
	}
	if r.Lost {
		text += ", a source was deleted"
	}
	if !r.Sealed {
		text += ", no copy"
	}
	return fmt.Sprintf("%s; %d faults struck (%s)", text, len(r.Faults), strings.Join(r.Faults, " "))
}

const (
	sourceStorage = "s3://" + testbed.Bucket + "/source"
	copyStorage   = "s3://" + testbed.Bucket + "/copies"
	onStorage     = "s3://" + testbed.Bucket + "/onward" // of copies of copies
	copied        = "nightly"                            // the backup
	before        = "earlier"                            // a backup that was copied before
)

// copies is a soak of one copy, and of that of the copy.
type copies struct {
	state
	route    route
	from, to objstore.Store
	behind   []at // what is deleted after the copy: its source, and the source of that
	volumes  []cluster.Store
	images   map[cluster.SnapshotID]*disk.Image // of the source's snapshots
	lost     atomic.Bool                        // the source has lost a snapshot
	r        CopyResult
}

// at is a storage, and what leads commands to it.
type at struct {
	store objstore.Store
	there []string
}

// RunCopy copies a backup under faults: by a push or a pull, into another region, another account, or only another
// storage. The copy is complete, or there is none. If the process failed or was killed, the same command ends with a
// copy, also after a gc, which leaves nothing of it; unless the source has lost a snapshot: then there may be none. Of
// one seed in two the copy is copied on in the same way, if its account may read its key. In the end all is deleted, and neither account has a snapshot. An error names the seed.
func RunCopy(ctx context.Context, cfg Config) (*CopyResult, error) {
	if cfg.Scale == 0 {
		cfg.Scale = 20
	}
	c := &copies{images: map[cluster.SnapshotID]*disk.Image{}}
	c.cfg, c.faults = cfg, &fault.Plan{}
	c.rng = rand.New(rand.NewPCG(uint64(cfg.Seed), 0xc091))
	err := c.begin(ctx)
	if err == nil {
		err = c.play(ctx)
	}
	if c.bed != nil {
		c.bed.Close()
	}
	c.r.Output = c.out.String()
	for _, s := range c.struck {
		if s.hit.Load() {
			c.r.Faults = append(c.r.Faults, s.name)
		}
	}
	if err != nil {
		return &c.r, fmt.Errorf("seed %d: %w", cfg.Seed, err)
	}
	return &c.r, nil
}

// begin makes the world without faults: a backup, and for one seed of two an older one that was copied.
func (c *copies) begin(ctx context.Context) error {
	rules := ebstest.QuickRules()
	rules.Invisible = ebstest.Span{Most: time.Duration(c.rng.IntN(int(hidden)))}
	rules.SnapshotSpacing = 0
	rules.Copies.NeedSource = c.rng.IntN(2) == 0
	rules.Latency = map[string]ebstest.Span{}
	for _, action := range copying() {
		rules.Latency[action] = ebstest.Span{Most: time.Duration(c.rng.IntN(2000)) * time.Millisecond}
	}
	var err error
	c.bed, err = testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: c.cfg.Dir, Nodes: 1, Scale: c.cfg.Scale, Seed: c.cfg.Seed, Faults: c.faults, Rules: rules,
	})
	if err != nil {
		return err
	}
	if c.from, err = c.open(ctx, sourceStorage); err != nil {
		return err
	}
	if c.to, err = c.open(ctx, copyStorage); err != nil {
		return err
	}
	c.behind = []at{{c.from, []string{"--storage", sourceStorage}}}
	c.route = c.routes()[c.rng.IntN(len(c.routes()))]
	c.r.Route = c.route.name
	if err := c.createVolumes(); err != nil {
		return err
	}
	if c.rng.IntN(2) == 0 {
		if err := c.backUp(ctx, before); err != nil {
			return err
		}
		if err := c.ends(ctx, 0, c.copyArgs(before)...); err != nil {
			return err
		}
	}
	return c.backUp(ctx, copied)
}

func (c *copies) open(ctx context.Context, url string) (objstore.Store, error) {
	return objstore.Open(ctx, url, objstore.Config{Region: testbed.Region, Endpoint: c.bed.AWS()})
}

// play makes the copy, and for one seed of two that of the copy, and deletes all.
func (c *copies) play(ctx context.Context) error {
	if err := c.link(ctx); err != nil {
		return err
	}
	if c.r.Sealed && c.rng.IntN(2) == 0 {
		on, err := c.onward(ctx)
		if err == nil && on {
			err = c.link(ctx)
		}
		if err != nil {
			return fmt.Errorf("copy the copy: %w", err)
		}
	}
	return c.deleteAll(ctx)
}

// link makes one copy under faults, and ends it.
func (c *copies) link(ctx context.Context) error {
	if err := c.addCopyFaults(ctx); err != nil {
		return err
	}
	code, err := c.copy(ctx)
	if err != nil {
		return err
	}
	c.faults.Clear()
	c.r.Lost = c.lost.Load()
	if err := c.completeOrNothing(ctx); err != nil {
		return err
	}
	if code == 0 {
		return c.unshared()
	}
	if err := c.locksEnd(ctx); err != nil {
		return err
	}
	if c.rng.IntN(3) == 0 {
		if err := c.collected(ctx); err != nil {
			return err
		}
	}
	code, err = c.copy(ctx)
	switch {
	case err != nil:
		return err
	case code != 0 && !c.r.Lost:
		return fmt.Errorf("the same command again ended with %d", code)
	}
	if err := c.completeOrNothing(ctx); err != nil {
		return err
	}
	return c.unshared()
}

// copy makes the copy in one more process.
func (c *copies) copy(ctx context.Context) (int, error) {
	code, err := c.does(ctx, c.copyArgs(copied)...)
	c.r.Codes = append(c.r.Codes, code)
	if err == nil && code == 0 {
		if _, err := (catalog.Catalog{Store: c.to}).Load(ctx, copied); err != nil {
			return code, fmt.Errorf("the copy ended with 0: %w", err)
		}
	}
	return code, err
}

// collected is a gc of what the dead or failed process left: nothing of it is there any more.
func (c *copies) collected(ctx context.Context) error {
	c.r.GC = true
	if err := wait.For(ctx, c.real(hidden)); err != nil {
		return err
	}
	if err := c.ends(ctx, 0, append(c.route.there, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")...); err != nil {
		return err
	}
	return Copies(ctx, c.route.to, c.to)
}

// locksEnd ends the lock and the lease of a process that died, as time does.
func (c *copies) locksEnd(ctx context.Context) error {
	about := journal.About{Operation: journal.Copy, Cluster: source}
	if err := expire(ctx, c.to, about.Lock()); err != nil {
		return err
	}
	to, err := identity.Read(ctx, c.to)
	if err != nil {
		return err
	}
	return expire(ctx, c.from, journal.UseLock(source, to.ID))
}

// deleteAll deletes what there is in all storages, and proves that no snapshot is left.
func (c *copies) deleteAll(ctx context.Context) error {
	for _, of := range append([]at{{c.to, c.route.there}}, c.behind...) {
		entries, err := catalog.Catalog{Store: of.store}.List(ctx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			args := append(of.there[:len(of.there):len(of.there)], "delete", string(e.ID), "--yes", "--last", "--delete-rate", "100")
			if e.State != catalog.StateSealed {
				args = append(of.there[:len(of.there):len(of.there)], "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
			}
			if err := c.ends(ctx, 0, args...); err != nil {
				return err
			}
		}
	}
	if c.r.Lost && !c.r.Sealed {
		if err := c.collected(ctx); err != nil {
			return err
		}
	}
	for _, ec2 := range []*ebstest.Server{c.bed.EC2, c.bed.Away, c.bed.Vault} {
		for _, s := range ec2.Snapshots() {
			return fmt.Errorf("snapshot %s of run %s is left in %s of account %s", s.ID, s.Tags[ebs.TagRun], ec2.Region(), ec2.Account())
		}
	}
	return nil
}

// does runs one command.
func (c *copies) does(ctx context.Context, args ...string) (int, error) {
	fmt.Fprintf(&c.out, "\n$ tisnap %s\n", strings.Join(args, " "))
	code, err := c.cfg.Program(ctx, c.bed, append(args[:len(args):len(args)], "--progress", "plain"), &c.out)
	fmt.Fprintf(&c.out, "(ended with %d)\n", code)
	return code, err
}

// ends runs one command that has to end with a code.
func (c *copies) ends(ctx context.Context, want int, args ...string) error {
	code, err := c.does(ctx, args...)
	if err == nil && code != want {
		err = failure.New(failure.Unknown, "run tisnap", strings.Join(args, " "), "it ended with %d", code)
	}
	return err
}
