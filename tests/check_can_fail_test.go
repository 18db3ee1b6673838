package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The tests of this file break the backup or the restore where a defect would, and require that a round
// does not pass. A round that cannot fail proves nothing.

// failingRound makes a round that has to fail, and returns why, and what the program printed.
func failingRound(t *testing.T, cfg round.Config) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	log := &shipped.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	cfg.Dir, cfg.Tisnap, cfg.Seed, cfg.Scale = t.TempDir(), inProcess(t, log), 1, 4
	cfg.Accounts, cfg.Regions = accounts, 8
	_, err = round.Run(ctx, cfg)
	require.Error(t, err, "the round did not see it")
	require.NoError(t, ctx.Err(), "it took too long")
	return log.String(), err
}

// accounts is how many rows such a round has at its beginning.
const accounts = 500

// failed requires that the command ended with the code.
func failed(t *testing.T, err error, command string, code int) {
	t.Helper()
	var exit *round.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, round.ExitError{Command: command, Code: code}, *exit)
}

// TestRound_FlashbackSkipped_IsSeen has stores that answer a flashback and do nothing.
func TestRound_FlashbackSkipped_IsSeen(t *testing.T) {
	t.Parallel()
	_, err := failingRound(t, round.Config{TiKV: func(o *tikvtest.Options) { o.IgnoreFlashback = true }})
	require.ErrorContains(t, err, "verify rows of timestamp")
	assert.NotContains(t, err.Error(), " 0 wrong", "rows of after the backup ts are there")
}

// keptImages are what the source's volumes held when its backup began, with the rows as they were loaded.
type keptImages struct {
	mu       sync.Mutex
	byVolume map[cluster.VolumeID]*disk.Image
}

// keep is for round.Config.During.
func (k *keptImages) keep(_ context.Context, bed *testbed.Testbed, c *testbed.Cluster) {
	volumes := bed.Volumes(c.Name)
	devices := make([]*disk.Device, 0, len(volumes))
	for _, v := range volumes {
		if device, err := bed.EC2.Device(v); err == nil {
			devices = append(devices, device)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byVolume = map[cluster.VolumeID]*disk.Image{}
	for i, image := range disk.Cut(devices...) {
		k.byVolume[volumes[i]] = image
	}
}

// restoreFrom puts what was kept into the snapshots that are chosen.
func (k *keptImages) restoreFrom(t *testing.T, chosen func(ebs.Snapshot) bool) func(*testbed.Testbed) {
	t.Helper()
	return func(bed *testbed.Testbed) {
		k.mu.Lock()
		defer k.mu.Unlock()
		replaced := 0
		for _, s := range bed.EC2.Snapshots() {
			if chosen(s) {
				assert.NoError(t, bed.EC2.SetImage(s.ID, k.byVolume[s.Volume]))
				replaced++
			}
		}
		assert.Positive(t, replaced)
	}
}

// TestRound_OldCopies_AreSeen restores copies that were made before the backup ts: the restore cannot know,
// and the rows show it.
func TestRound_OldCopies_AreSeen(t *testing.T) {
	t.Parallel()
	var old keptImages
	_, err := failingRound(t, round.Config{
		During: old.keep, BeforeRestore: old.restoreFrom(t, func(ebs.Snapshot) bool { return true }),
	})
	require.ErrorContains(t, err, "verify rows of timestamp")
	assert.NotContains(t, err.Error(), " 0 wrong", "commits of before the backup ts are lost")
}

// TestRound_LogOlderThanItsData_EndsTheRestore loses what a store has to recover from: its raft log is of
// another moment than its data, so that its process dies on it, again and again. TiKV that applies early would start.
func TestRound_LogOlderThanItsData_EndsTheRestore(t *testing.T) {
	t.Parallel()
	var old keptImages
	output, err := failingRound(t, round.Config{
		During: old.keep, Timeout: time.Minute, TiKV: func(o *tikvtest.Options) { o.NoEarlyApply = true },
		BeforeRestore: old.restoreFrom(t, func(s ebs.Snapshot) bool {
			return s.Tags[ebs.TagStore] == "1" && s.Tags[ebs.TagVolumeOf+string(cluster.RoleRaftLog)] == string(s.Volume)
		}),
	})
	failed(t, err, "restore", 10)
	assert.Regexp(t, `error: .*TiKV of store 1 ends as soon as it is started: .*FATAL`, output)
	// Stores join in any order, so that store 1 may be each of the pods.
	assert.Regexp(t, `hint: see its log: kubectl -n tidb logs copy-tikv-[012] -c tikv --previous`, output)
	assert.Contains(t, output, "tisnap restore round-1 --to tidb/copy --tolerate-store 1")
}

// splitter makes the stores break their promise: in each attempt at the cut, all regions split right before the nth of the
// three sets of snapshots. An attempt that is undone deletes its snapshots, and then the next one begins.
type splitter struct {
	faults *fault.Plan
	nth    int

	mu             sync.Mutex
	attempt, calls int
	splits         int
}

// during is for round.Config.During.
func (p *splitter) during(t *testing.T) func(context.Context, *testbed.Testbed, *testbed.Cluster) {
	t.Helper()
	return func(ctx context.Context, bed *testbed.Testbed, c *testbed.Cluster) {
		for _, s := range c.Stores() {
			s.IgnoreLeaseForSplits(true)
		}
		assert.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.DeleteSnapshot", Position: fault.Slow, Times: -1, Do: p.takenBack}))
		assert.NoError(t, p.faults.Add(fault.Rule{
			Point: "ec2.CreateSnapshots", Position: fault.Slow, Times: -1,
			Nth: 2, // the first call is preflight's dry run
			Do:  func() { p.cut(ctx, t, bed, c) },
		}))
	}
}

func (p *splitter) takenBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls > 0 {
		p.attempt, p.calls = p.attempt+1, 0
	}
}

// cut splits if it is the attempt's nth call, once the sets before it are made. An attempt that ends meanwhile ends the wait.
func (p *splitter) cut(ctx context.Context, t *testing.T, bed *testbed.Testbed, c *testbed.Cluster) {
	t.Helper()
	p.mu.Lock()
	p.calls++
	attempt, chosen := p.attempt, p.calls == p.nth
	p.mu.Unlock()
	if !chosen {
		return
	}
	for made(bed) < p.nth-1 {
		if p.now() != attempt || wait.For(ctx, blink) != nil {
			return
		}
	}
	var keys [][]byte
	for i := 7 + attempt; i < accounts; i += 50 {
		keys = append(keys, fmt.Appendf(nil, "acct/%08d", i))
	}
	if assert.NoError(t, c.SplitAt(ctx, keys...)) {
		p.mu.Lock()
		p.splits++
		p.mu.Unlock()
	}
}

func (p *splitter) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempt
}

func (p *splitter) split() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.splits
}

// made counts the stores that have snapshots.
func made(bed *testbed.Testbed) int {
	stores := map[string]bool{}
	for _, s := range bed.EC2.Snapshots() {
		stores[s.Tags[ebs.TagStore]] = true
	}
	return len(stores)
}

// TestRound_SplitInTheCut_IsSeen has a cluster that is not still while it is cut.
func TestRound_SplitInTheCut_IsSeen(t *testing.T) {
	t.Parallel()
	t.Run("one store has the old ranges: it can be restored, with a warning", func(t *testing.T) {
		t.Parallel()
		p := &splitter{faults: &fault.Plan{}, nth: 2}
		output, err := failingRound(t, round.Config{Faults: p.faults, During: p.during(t)})
		require.ErrorContains(t, err, "the restore warned: peers of")
		assert.Contains(t, output, "warning: peers of")
		assert.Positive(t, p.split())
	})
	t.Run("one store has the new ranges: its log brings them to the others, with a warning", func(t *testing.T) {
		t.Parallel()
		p := &splitter{faults: &fault.Plan{}, nth: 3}
		output, err := failingRound(t, round.Config{Faults: p.faults, During: p.during(t)})
		require.ErrorContains(t, err, "the restore warned: peers of")
		assert.NotContains(t, err.Error(), "verify rows", "what the new ranges hold is in the log of the store that has them")
		assert.Contains(t, output, "warning: peers of")
		assert.Positive(t, p.split())
	})
}
