package hold_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

// killedBackup starts a backup and kills it when its journal comes to a point. The record is stored if the point is
// one of a step's begin, and is not if it is of its end.
func (p *place) killedBackup(t *testing.T, point string, position fault.Position, args ...string) {
	t.Helper()
	started := make(chan *rival, 1)
	var once sync.Once
	p.fault(t, fault.Rule{Point: point, Position: position, Times: -1, Do: func() {
		once.Do(func() { _ = (<-started).cmd.Process.Signal(syscall.SIGKILL) })
	}})
	// EC2 plays no limit here that sets which killed runs left would fill: there is nothing to wait for.
	r := p.start(t, append([]string{"--lease", lease.String(), "--pending-timeout", "1s"}, args...)...)
	started <- r
	require.Equal(t, -1, r.wait(), "it was to be killed at %s: %s", point, r.output.String())
	p.reached(t)
	p.faults.Clear()
}

func (p *place) store(t *testing.T) objstore.Store {
	t.Helper()
	store, err := objstore.Open(t.Context(), storage, objstore.Config{Region: testbed.Region, Endpoint: p.AWS()})
	require.NoError(t, err)
	return store
}

// expire ends the lock of a run that was killed, as time does.
func (p *place) expire(t *testing.T) {
	t.Helper()
	lock, _, err := runlock.Read(t.Context(), p.store(t), prod)
	require.NoError(t, err)
	require.NoError(t, runlock.Break(t.Context(), p.store(t), prod, lock.Epoch))
}

// It kills the shipped program at each record of its journal from the cut on (tidb-operator#5074, tidb#44806): every
// snapshot carries a run whose journal is in the storage, and after gc EC2 holds what sealed manifests name and nothing
// else. The steps are the backup's own, so that a new one is in the test.
// Catalogue: C8.
func TestKilledAtEachJournalRecord_NothingStaysUnnamed(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t, 3, func(c *testbed.Config) {
		c.Rules.SnapshotSpacing, c.StaticRegions = 0, 4
		// What EC2 does not list yet is a later gc's. By default gc keeps what is of the last hour, which is left out here.
		c.Rules.Invisible = ebstest.Span{}
	})
	steps := backup.Outline()
	cut := slices.IndexFunc(steps, func(s phase.Outline) bool { return s.Name == journal.StepCut })
	require.Positive(t, cut)
	made := 0
	for i, step := range steps[cut:] {
		for position, point := range map[fault.Position]string{fault.After: "journal.begin." + step.Name, fault.Stall: "journal.done." + step.Name} {
			t.Run(point, func(t *testing.T) {
				name := "b-" + string(rune('a'+i)) + position.String()
				p.killedBackup(t, point, position, "--name", name, "--run-id", name)
				for _, s := range p.EC2.Snapshots() {
					_, err := runs.Read(t.Context(), p.store(t), cluster.RunID(s.Tags[ebs.TagRun]))
					require.NoError(t, err, "of snapshot %s", s.ID)
					made++
				}
				p.releasedWithin(t, lease+10*time.Second)
				p.expire(t)
				e := p.run(within(t, time.Minute), "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
				require.Zero(t, e.code, e.String())
				require.NoError(t, leak.Balance(context.WithoutCancel(t.Context()), p.Testbed, p.store(t)))
			})
		}
	}
	require.Positive(t, made, "no backup was killed that had snapshots")
}
