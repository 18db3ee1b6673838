package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// resumed are the cases of TestResolver in which a second run resumes a first one.
func resumed() []resolverCase {
	return []resolverCase{
		{"a run interrupted in its flashback is resumed", interruptedInFlashback},
		{"a run killed while it prepares is resumed", func(t *testing.T, o *original) { killedAt(t, o, "KvPrepareFlashbackToVersion") }},
		{"a run killed while it flashes back is resumed", func(t *testing.T, o *original) { killedAt(t, o, "KvFlashbackToVersion") }},
		{"a run that does not know of the killed one begins from scratch", unknownToEachOther},
		{"progress of another cluster of that name is not believed", progressOfAnother},
		{"another run writes progress", progressTaken},
		{"another run has the cluster while regions are prepared", takenWhilePreparing},
		{"another run has finished while a flashback was under way", takenWhileFlashing},
		{"object storage is away while regions are flashed back", progressAway},
	}
}

// dead is object storage as a killed process sees it: it writes nothing any more.
type dead struct {
	objstore.Store
	from func() bool
}

var errDead = errors.New("the process is dead")

func (d dead) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if d.from() {
		return "", errDead
	}
	return d.Store.Replace(ctx, key, body, old)
}

// progressIn is the lab's progress in a store.
func progressIn(store objstore.Store) *resolve.ProgressFile {
	return resolve.NewProgressFile(store, cluster.Name{Namespace: "tidb", Name: "copy"}, "b1")
}

// calls counts what the stores carried out under a name.
func (l *lab) calls(name string) int {
	n := 0
	for _, s := range l.stores {
		for _, call := range s.MutatingCalls() {
			if call == name {
				n++
			}
		}
	}
	return n
}

// abort runs the resolver's steps and ends them once the point is reached for the nth time and what the answers of the
// calls before it bring about has happened.
func (l *lab) abort(t *testing.T, cfg resolve.Config, point string, nth int, undo bool, arrived func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	then := func() {
		assert.Eventually(t, arrived, patience, time.Millisecond)
		cancel()
	}
	require.NoError(t, l.faults.Add(fault.Rule{Point: point, Nth: nth, Position: fault.After, Do: then}))
	r := resolve.New(l.client, nil)
	r.Target(cfg, l.oracle)
	steps := r.Steps("resolve data", resolve.StepOptions{})
	if !undo {
		for i := range steps {
			steps[i].Undo.Do = nil
		}
		t.Cleanup(func() { _ = r.Thaw(t.Context(), nil) }) // ends what the dead process would have taken with it
	}
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/"+string(cfg.Run))
	err := phase.New(phase.Config{Run: cfg.Run, Journal: journal}).Run(ctx, steps)
	require.ErrorIs(t, err, context.Canceled)
	l.faults.Clear()
}

// interruptedInFlashback lets the first run note what it has done: nothing of that is done again.
func interruptedInFlashback(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	store := objstoretest.NewMemory(nil)
	first := l.config(o, "first")
	first.Progress = progressIn(store)
	l.abort(t, first, "tikv.*.KvFlashbackToVersion", 4, true, func() bool {
		noted, _, err := progressIn(store).Load(within(t))
		return err == nil && len(noted.Flashed) > 0
	})
	noted, found, err := progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []cluster.KeyRange{{}}, noted.Prepared)
	require.NotEmpty(t, noted.Flashed)
	require.False(t, noted.Done(noted.ClusterID, o.ts))
	prepared, flashed := l.calls("KvPrepareFlashbackToVersion"), l.calls("KvFlashbackToVersion")

	second := l.config(o, "second")
	second.Progress = progressIn(store)
	r, err := l.run(t, second, nil)
	require.NoError(t, err)
	require.Equal(t, prepared, l.calls("KvPrepareFlashbackToVersion"), "all regions were prepared")
	repeated := l.calls("KvFlashbackToVersion") - flashed
	require.Less(t, repeated, r.Stats().Regions, "regions that were noted are not done again")
	noted2, _, err := progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.Equal(t, noted.Stamps, noted2.Stamps)
	require.True(t, noted2.Done(noted.ClusterID, o.ts))
	l.verify(t, o)
	require.NoError(t, r.Thaw(within(t), nil))
	_, found, err = progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.False(t, found, "once TiDB is up, nothing may be flashed back any more")
}

// killedAt lets the first run vanish: nothing is noted but its timestamps, nothing is undone.
func killedAt(t *testing.T, o *original, rpc string) {
	l := restoreLab(t, o, 1)
	store := objstoretest.NewMemory(nil)
	first := l.config(o, "first")
	reached := func() bool { return l.calls(rpc) > 0 }
	first.Progress = progressIn(dead{Store: store, from: reached})
	l.abort(t, first, "tikv.*."+rpc, 3, false, reached)
	noted, _, err := progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.Empty(t, noted.Flashed)
	require.NotZero(t, noted.Stamps.Commit, "they were written before they were used")

	second := l.config(o, "second")
	second.Progress = progressIn(store)
	_, err = l.run(t, second, nil)
	require.NoError(t, err)
	after, _, err := progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.Equal(t, noted.Stamps, after.Stamps)
	l.verify(t, o)
}

// unknownToEachOther: the whole flashback may be repeated with newer timestamps.
func unknownToEachOther(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	l.abort(t, l.config(o, "first"), "tikv.*.KvFlashbackToVersion", 5, false, func() bool { return l.calls("KvFlashbackToVersion") > 0 })
	_, err := l.run(t, l.config(o, "second"), nil)
	require.NoError(t, err)
	l.verify(t, o)
}

func progressOfAnother(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	store := objstoretest.NewMemory(nil)
	other := resolve.Progress{
		ClusterID: 42, BackupTS: o.ts, Run: "old", Stamps: resolve.Stamps{Start: o.ts + 1, Commit: o.ts + 2},
		Prepared: []cluster.KeyRange{{}}, Flashed: []cluster.KeyRange{{}},
	}
	require.NoError(t, progressIn(store).Save(within(t), other))
	cfg := l.config(o, "run")
	cfg.Progress = progressIn(store)
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, l.calls("KvFlashbackToVersion"), r.Stats().Regions)
	l.verify(t, o)
}

// progressTaken: two runs that do not see each other's RecoverRegion still do not both continue.
func progressTaken(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	store := objstoretest.NewMemory(nil)
	cfg := l.config(o, "first")
	cfg.Progress = progressIn(store)
	_, err := l.run(t, cfg, map[string]func(){"prepare": func() {
		theirs := progressIn(store)
		p, _, err := theirs.Load(within(t))
		require.NoError(t, err)
		p.Run = "second"
		require.NoError(t, theirs.Save(within(t), p))
	}})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "run second has taken over")
	require.Zero(t, l.calls("KvFlashbackToVersion"))
	require.NotEmpty(t, l.pd.TTLConfigs(), "they are the second one's now")
}

// takenWhilePreparing: what is not prepared when the lock turns out to be another run's is not prepared.
func takenWhilePreparing(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	cfg := l.config(o, "first")
	var asked atomic.Int64
	cfg.Fence = &checkFence{check: func(context.Context) error {
		if asked.Add(1) > 4 {
			return failure.New(failure.Conflict, "check lock", "", "taken over by run second")
		}
		return nil
	}}
	_, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "taken over by run second")
	require.LessOrEqual(t, l.calls("KvPrepareFlashbackToVersion"), 4)
	require.Zero(t, l.calls("KvFlashbackToVersion"))
	require.NotEmpty(t, l.pd.TTLConfigs(), "they are the second one's now")
}

// takenWhileFlashing: a store answers that a region is not prepared, because the other run is done with it and the
// cluster serves. To prepare it again would block it for ever.
func takenWhileFlashing(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	cfg := l.config(o, "first")
	var taken atomic.Bool
	cfg.Fence = &checkFence{check: func(context.Context) error {
		if taken.Load() {
			return failure.New(failure.Conflict, "check lock", "", "taken over by run second")
		}
		return nil
	}}
	var prepared atomic.Int64
	require.NoError(t, l.faults.Add(fault.Rule{
		Point: "tikv.*.KvFlashbackToVersion", Code: "flashback_not_prepared", Do: func() {
			prepared.Store(int64(l.calls("KvPrepareFlashbackToVersion")))
			taken.Store(true)
		},
	}))
	_, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Empty(t, l.faults.Unreached())
	require.EqualValues(t, prepared.Load(), l.calls("KvPrepareFlashbackToVersion"))
}

// progressAway: what cannot be noted is not lost, it is only not noted.
func progressAway(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	store := objstoretest.NewMemory(nil)
	cfg := l.config(o, "run")
	cfg.Progress = progressIn(dead{Store: store, from: func() bool { return true }})
	_, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	l.verify(t, o)
	noted, _, err := progressIn(store).Load(within(t))
	require.NoError(t, err)
	require.Empty(t, noted.Flashed, fmt.Sprint("nothing but the timestamps could be written: ", noted))
}

// checkFence is a fence whose Check is a test's.
type checkFence struct {
	fenced.None
	check func(context.Context) error
}

func (f *checkFence) Check(ctx context.Context) error {
	err := f.check(ctx)
	if failure.Is(err, failure.Conflict) {
		f.Lose(err)
	}
	return err
}
