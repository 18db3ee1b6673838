package round

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// logStall is when the raft logs of some stores take no writes, and for how long.
type logStall struct {
	at    string // fault point at whose first call it begins
	cuts  int    // after so many stores were cut
	after time.Duration
	d     time.Duration
	on    int // so many of the stores that are not cut yet, those first that lead most
}

// Where a stall begins.
const (
	atLimit = "tikv.*.Status.PostConfig"
	atHold  = "tikv.*.PrepareSnapshotBackup.UpdateLease"
	atCut   = "ec2.CreateSnapshots"
)

// drawStall draws the stall of a backup by its seed: most of them between the first and the last cut, so that the logs of the
// others end before it, where it began, or in it; some from the hold or the change of the limit on. Times are virtual.
func drawStall(seed int64, stores int) logStall {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x51a1))
	s := logStall{at: atCut, d: time.Second + time.Duration(rng.Int64N(int64(19*time.Second))), on: 1}
	switch rng.IntN(8) {
	case 0:
		s.at = atLimit
	case 1:
		s.at = atHold
	default:
		s.cuts, s.after = rng.IntN(stores), time.Duration(rng.Int64N(int64(time.Second)))
	}
	if s.cuts == 0 && rng.IntN(4) == 0 {
		s.on = 2
	}
	return s
}

// String describes it to the reader of a failed run.
func (s logStall) String() string {
	return fmt.Sprintf("%d raft logs stall for %s from %s on, %d cuts and %s later",
		s.on, s.d.Round(time.Millisecond), s.at, s.cuts, s.after.Round(time.Millisecond))
}

// troubleLogs puts what drawStall draws into force. What it begins ends with ctx, and is in wg.
func (s *state) troubleLogs(ctx context.Context, c *testbed.Cluster, wg *sync.WaitGroup) error {
	if !s.cfg.LogTrouble {
		return nil
	}
	stall, clock, before := drawStall(s.cfg.Seed, s.cfg.Stores), timescale.New(s.cfg.Scale), len(s.bed.EC2.Cuts())
	s.result.LogTrouble = stall.String()
	begin := func() error {
		for len(s.bed.EC2.Cuts())-before < stall.cuts {
			if err := wait.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if err := wait.For(ctx, clock.Real(stall.after)); err != nil {
			return err
		}
		left := s.uncut(c, before)
		for _, st := range left[:min(stall.on, len(left))] {
			st.StallLog(clock.Real(stall.d))
		}
		return nil
	}
	do := func() { wg.Go(func() { _ = begin() }) } // ctx ends it
	if stall.cuts == 0 && stall.after == 0 {
		do = func() { _ = begin() } // before the call does anything
	}
	return s.cfg.Faults.Add(fault.Rule{Point: stall.at, Position: fault.Slow, Do: do})
}

// uncut are the stores that no cut but the first ones has, those first that lead most.
func (s *state) uncut(c *testbed.Cluster, before int) []*tikvtest.Store {
	volumes := map[cluster.SnapshotID]ebs.Snapshot{}
	for _, snapshot := range s.bed.EC2.Snapshots() {
		volumes[snapshot.ID] = snapshot
	}
	left := c.Stores()
	for _, cut := range s.bed.EC2.Cuts()[before:] {
		for _, id := range cut.Snapshots {
			if device, err := s.bed.EC2.Device(volumes[id].Volume); err == nil {
				left = slices.DeleteFunc(left, func(st *tikvtest.Store) bool { return st.HasRaftLog(device) })
			}
		}
	}
	slices.SortStableFunc(left, func(a, b *tikvtest.Store) int { return cmp.Compare(leads(b), leads(a)) })
	return left
}

// leads is how many regions a store leads.
func leads(s *tikvtest.Store) (n int) {
	for _, p := range s.Peers() {
		if p.Leader {
			n++
		}
	}
	return n
}
