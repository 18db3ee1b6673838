package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

const (
	benchZone = cluster.Zone("us-west-2a")
	// benchPending is how long the snapshots of the benchmark are pending.
	benchPending = 3 * time.Minute
	machineSlack = 1.0 // seconds of EC2's clock
	// benchSpeed is how many of EC2's seconds pass in one of this machine's. A stall of this machine counts as many
	// times.
	benchSpeed = 5.0
)

// bucketFloor is the least time that EC2's bucket of 100 calls and 5 a second gives so many calls.
func bucketFloor(calls int) float64 { return max(0, float64(calls-100)/5) }

// ec2Bench is one account with a cluster of so many stores, and what was measured there.
type ec2Bench struct {
	stores int
	speed  float64
	clock  timescale.Clock
	server *ebstest.Server
	faults *fault.Plan
	client *ebs.Client
	rules  *ebstest.Rules

	instances []cluster.InstanceID
	attached  map[cluster.InstanceID][]cluster.VolumeID
	snapshots []cluster.SnapshotID
	figures   []figure
}

// benchAccount measures a backup's and a restore's calls at one size. The figures so far are returned on error too.
func benchAccount(ctx context.Context, stores int, speed float64) ([]figure, error) {
	b := &ec2Bench{stores: stores, speed: speed, faults: &fault.Plan{}, attached: map[cluster.InstanceID][]cluster.VolumeID{}}
	b.clock = timescale.New(speed)
	b.rules = ebstest.RealRules()
	b.rules.PendingInAccount = 2 * stores * volumesPerStore // an account of this size has asked AWS for it
	b.rules.StorageGiB, b.rules.IOPS = nil, nil
	b.rules.VanishOneIn = 0
	b.rules.SnapshotBase = benchPending
	b.server = ebstest.New(ebstest.Config{Clock: b.clock, Faults: b.faults, Rules: b.rules, Seed: 1})
	if err := b.server.Start(); err != nil {
		return nil, err
	}
	defer b.server.Close()
	var err error
	if b.client, err = ebs.Open(ctx, ebs.Config{Region: "us-west-2", Endpoint: b.server.URL(), Clock: b.clock}); err != nil {
		return nil, err
	}
	defer b.client.Close()
	for _, step := range []func(context.Context) error{b.build, b.cut, b.await, b.restore, b.poll, b.remove} {
		if err := step(ctx); err != nil {
			return b.figures, err
		}
	}
	return b.figures, nil
}

// build makes the cluster's machines and volumes, without EC2's buckets.
func (b *ec2Bench) build(context.Context) error {
	for range b.stores {
		i := b.server.AddInstance(benchZone)
		b.instances = append(b.instances, i)
		for range volumesPerStore {
			v, err := b.server.CreateVolumeDirect(benchZone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
			if err != nil {
				return err
			}
			if err := b.server.Attach(v, i); err != nil {
				return err
			}
			b.attached[i] = append(b.attached[i], v)
		}
	}
	return nil
}

// all does one thing for each of n, all at the same time, and returns how long it took by EC2's clock.
func (b *ec2Bench) all(n int, do func(int) error) (time.Duration, error) {
	errs := make([]error, n)
	start := b.clock.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return b.clock.Now().Sub(start), errors.Join(errs...)
}

// cut is a backup's: one DescribeInstances, and one CreateSnapshots per store.
func (b *ec2Bench) cut(ctx context.Context) error {
	made := make([][]ebs.Snapshot, b.stores)
	start := b.clock.Now()
	look, err := b.client.Attachments(ctx, b.instances)
	if err != nil {
		return err
	}
	_, err = b.all(b.stores, func(n int) (err error) {
		i := b.instances[n]
		made[n], err = b.client.Cut(ctx, ebs.CutRequest{
			Instance: i, Volumes: b.attached[i], Attached: look, Tags: ebs.Tags{ebs.TagRun: "bench", ebs.TagStore: fmt.Sprint(n)},
		})
		return err
	})
	took := b.clock.Now().Sub(start)
	if err != nil {
		return err
	}
	for _, set := range made {
		for _, s := range set {
			b.snapshots = append(b.snapshots, s.ID)
		}
	}
	b.timed("cut", took, b.stores, b.slowest("DescribeInstances")+b.slowest("CreateSnapshots"))
	b.add(figure{Name: "backup: mutating calls a volume", Value: b.mutating("Create") / b.volumes(), Unit: "calls", AtMost: 0.6})
	return nil
}

// await looks at the snapshots until all are completed, as often as a backup does.
func (b *ec2Bench) await(ctx context.Context) error {
	start, before := b.clock.Now(), b.describes()
	for interval := ebs.NextPoll(0); ; interval = ebs.NextPoll(interval) {
		found, err := b.client.DescribeSnapshots(ctx, b.snapshots)
		if err != nil {
			return err
		}
		done := 0
		for _, s := range found {
			if s.State.Outcome() == ebs.SnapshotDone {
				done++
			}
		}
		if done == len(b.snapshots) {
			break
		}
		if err := b.clock.Sleep(ctx, interval); err != nil {
			return err
		}
	}
	minutes := b.clock.Now().Sub(start).Minutes()
	b.add(figure{
		Name: "backup: describe calls a volume and minute of waiting", Unit: "calls", AtMost: 0.3,
		Value: (b.describes() - before) / b.volumes() / minutes, How: fmt.Sprintf("over %.1f minutes", minutes),
	})
	return nil
}

// restore makes a volume of each snapshot and waits until all are available.
func (b *ec2Bench) restore(ctx context.Context) error {
	before := b.mutating("")
	ids := make([]cluster.VolumeID, len(b.snapshots))
	took, err := b.all(len(b.snapshots), func(n int) error {
		s := b.snapshots[n]
		v, err := b.client.CreateVolume(ctx, ebs.VolumeRequest{
			Token: ebs.Token(1, "bench", string(s)), Snapshot: s, Zone: benchZone,
			Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 10, IOPS: 4000, ThroughputMiB: 500},
			Tags: ebs.Tags{ebs.TagRun: "bench", ebs.TagSnapshot: string(s)},
		})
		ids[n] = v.ID
		return err
	})
	if err != nil {
		return err
	}
	b.timed("create all volumes", took, len(ids), b.slowest("CreateVolume"))
	for interval := ebs.NextPoll(0); ; interval = ebs.NextPoll(interval) {
		found, err := b.client.DescribeVolumes(ctx, ids)
		if err != nil {
			return err
		}
		usable := 0
		for _, v := range found {
			if v.State.Outcome() == ebs.VolumeUsable {
				usable++
			}
		}
		if usable == len(ids) {
			break
		}
		if err := b.clock.Sleep(ctx, interval); err != nil {
			return err
		}
	}
	b.add(figure{Name: "restore: mutating calls a volume", Value: (b.mutating("") - before) / b.volumes(), Unit: "calls", AtMost: 1.1})
	return nil
}

// poll looks many times and compares the heap after the first half with that after the second.
func (b *ec2Bench) poll(ctx context.Context) error {
	polls := max(20, 20_000/len(b.snapshots))
	var half [2]uint64
	for i := range half {
		for range polls / 2 {
			if _, err := b.client.DescribeSnapshots(ctx, b.snapshots); err != nil {
				return err
			}
		}
		runtime.GC()
		runtime.GC() // the first leaves what pools still hold
		half[i] = heapObjects()
	}
	b.add(figure{
		Name: "heap after twice as many polls", Value: (float64(half[1]) - float64(half[0])) / (1 << 20), Unit: "MiB more", AtMost: 1,
		How: fmt.Sprintf("%d polls, then %d more, of %d snapshots; stand-in included", polls/2, polls/2, len(b.snapshots)),
	})
	return nil
}

// remove deletes all snapshots.
func (b *ec2Bench) remove(ctx context.Context) error {
	start := b.clock.Now()
	left := ebs.DeleteEach(ctx, b.snapshots, b.client.DeleteSnapshot, nil)
	took := b.clock.Now().Sub(start)
	for id, err := range left {
		return fmt.Errorf("%d are left, %s among them: %w", len(left), id, err)
	}
	if n := len(b.server.Snapshots()); n != 0 {
		return fmt.Errorf("%d snapshots are left at ec2", n)
	}
	b.timed("delete all snapshots", took, len(b.snapshots), b.slowest("DeleteSnapshot"))
	return nil
}

// timed adds a time beside the bucket's own floor. Where the bucket gives nearly all calls at once, the time is
// that of the slowest answer, and what this machine takes for the calls counts as many times as time is scaled.
func (b *ec2Bench) timed(what string, took time.Duration, calls int, answer time.Duration) {
	floor := bucketFloor(calls)
	f := figure{
		Name: what, Value: math.Round(took.Seconds()*100) / 100, Unit: "s", AtMost: 1.1 * floor,
		How: fmt.Sprintf("at most 1.1 times the bucket's floor; time runs %g times as fast", b.speed),
	}
	if floor < 10*answer.Seconds() {
		f.AtMost = 1.1*(floor+answer.Seconds()) + machineSlack
		f.How = fmt.Sprintf("at most 1.1 times the floor and the slowest answer (%s), and %.1f s for this machine", answer, machineSlack)
	}
	f.AtMost = math.Round(100*f.AtMost) / 100
	b.add(figure{Name: what + ": the bucket's floor", Value: floor, Unit: "s", How: fmt.Sprintf("%d calls: 100 at once, then 5 a second", calls)})
	b.add(f)
}

func (b *ec2Bench) slowest(action string) time.Duration { return b.rules.Latency[action].Most }

func (b *ec2Bench) volumes() float64 { return float64(b.stores * volumesPerStore) }

func (b *ec2Bench) describes() float64 {
	return float64(b.faults.Calls("ec2.DescribeSnapshots") + b.faults.Calls("ec2.DescribeInstances"))
}

// mutating counts the calls whose action begins so.
func (b *ec2Bench) mutating(prefix string) float64 {
	n := 0
	for _, call := range b.server.MutatingCalls() {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return float64(n)
}

func (b *ec2Bench) add(f figure) {
	f.Name = fmt.Sprintf("%d stores, %s", b.stores, f.Name)
	b.figures = append(b.figures, f)
}
