package gc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// written calls before each write with its key; an error of it is the write's.
type written struct {
	objstore.Store
	before func(key string) error
}

func (w *written) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if err := w.before(key); err != nil {
		return "", err
	}
	return w.Store.Create(ctx, key, body)
}

func (w *written) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if err := w.before(key); err != nil {
		return "", err
	}
	return w.Store.Replace(ctx, key, body, old)
}

// killedBeforeBury deletes a backup, and ends between the announcement and the tombstone.
func (p *place) killedBeforeBury(t *testing.T, o DeleteOptions) {
	t.Helper()
	deps := p.deps
	deps.Store = &written{Store: p.deps.Store, before: func(key string) error {
		if key == manifest.SealKey(o.Backup) {
			return failure.New(failure.Denied, "create object", key, "killed")
		}
		return nil
	}}
	_, err := Delete(t.Context(), deps, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	_, err = p.catalog.Load(t.Context(), o.Backup)
	require.NoError(t, err, "it is as good as before")
}

// jitter lets others run first, at the seed's choice.
func jitter(seed uint64) func(string) error {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	return func(string) error {
		mu.Lock()
		n := random.IntN(20)
		mu.Unlock()
		for range n {
			runtime.Gosched()
		}
		return nil
	}
}

// atOnce runs all of them at the same moment and counts how they ended.
func atOnce(t *testing.T, all ...func() error) map[failure.Kind]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start, fine := make(chan struct{}), 0
	kinds := map[failure.Kind]int{}
	for _, do := range all {
		wg.Go(func() {
			<-start
			err := do()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fine++
				return
			}
			kinds[failure.KindOf(err)]++
		})
	}
	close(start)
	wg.Wait()
	require.Equal(t, len(all)-fine, kinds[failure.Conflict], "%v", kinds)
	return kinds
}

func TestDelete_TheLastTwoAtOnce_OneIsRefused(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := daily(t, 2)
			deps := p.deps
			deps.Store = &written{Store: p.deps.Store, before: jitter(seed)}
			remove := func(id cluster.BackupID) func() error {
				return func() error {
					_, err := Delete(t.Context(), deps, DeleteOptions{Backup: id, Rate: fast})
					return err
				}
			}
			kinds := atOnce(t, remove("day-1"), remove("day-2"))
			require.Equal(t, 1, kinds[failure.Conflict], "one goes, and one is refused")
			require.Len(t, p.ec2.ids(), 1)
			entries, err := p.catalog.List(t.Context())
			require.NoError(t, err)
			require.Len(t, entries, 1)
			_, err = p.catalog.Load(t.Context(), entries[0].ID)
			require.NoError(t, err)
		})
	}
}

// A prune deletes the older one, and a person the newer one: whoever is later leaves the other's.
func TestDelete_BesideAPrune_OneStays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := daily(t, 2)
			deps := p.deps
			deps.Store = &written{Store: p.deps.Store, before: jitter(seed)}
			atOnce(t, func() error {
				_, err := Delete(t.Context(), deps, DeleteOptions{Backup: "day-1", Rate: fast})
				return err
			}, func() error {
				_, err := Prune(t.Context(), deps, keepLast(1))
				return err
			})
			entries, err := p.catalog.List(t.Context())
			require.NoError(t, err)
			require.Len(t, entries, 1)
			_, err = p.catalog.Load(t.Context(), entries[0].ID)
			require.NoError(t, err)
			require.Equal(t, []cluster.SnapshotID{cluster.SnapshotID("snap-" + entries[0].ID)}, p.ec2.ids())
		})
	}
}

// The other deletion begins after the check, right before the announcement is written, with and without --last.
func TestDelete_TheOtherOneIsAnnouncedMeanwhile_IsRefused(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprint("last ", last), func(t *testing.T) {
			t.Parallel()
			p := daily(t, 2)
			deps, other := p.deps, sync.Once{}
			deps.Store = &written{Store: p.deps.Store, before: func(key string) error {
				if key == manifest.DeletionsKey(prod) {
					other.Do(func() { p.killedBeforeBury(t, DeleteOptions{Backup: "day-1", Last: last, Rate: fast}) })
				}
				return nil
			}}
			_, err := Delete(t.Context(), deps, DeleteOptions{Backup: "day-2", Rate: fast})
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "besides day-1, which are being deleted, too")
			_, err = p.catalog.Load(t.Context(), "day-2")
			require.NoError(t, err)
			require.Len(t, p.ec2.ids(), 2)
		})
	}
}

// What was announced and not buried is a good backup, and goes when it is deleted again.
func TestDelete_KilledBeforeItIsBuried_CanBeDeletedAgain(t *testing.T) {
	t.Parallel()
	p := daily(t, 2)
	p.killedBeforeBury(t, DeleteOptions{Backup: "day-2", Rate: fast})
	report, err := Prune(t.Context(), p.deps, PruneOptions{Policy: keepLast(1).Policy, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionDelete}, decided(report))
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "day-1", Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "day-2", Rate: fast})
	require.NoError(t, err)
	require.Equal(t, []cluster.SnapshotID{"snap-day-1"}, p.ec2.ids())
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "day-1", Last: true, Rate: fast})
	require.NoError(t, err)
	require.Empty(t, p.ec2.ids())
}

func TestDelete_TheOtherOneIsNoGoodBackup_IsRefused(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*testing.T, *place){
		"its snapshots are gone": func(_ *testing.T, p *place) { delete(p.ec2.snapshots, "snap-day-1") },
		"its snapshot failed": func(_ *testing.T, p *place) {
			p.ec2.snapshots["snap-day-1"] = ebs.Snapshot{ID: "snap-day-1", State: ebs.SnapshotError}
		},
		"its manifest is gone": func(t *testing.T, p *place) {
			require.NoError(t, p.deps.Store.Delete(t.Context(), manifest.ManifestKey("day-1")))
		},
		"it is buried": func(t *testing.T, p *place) {
			require.NoError(t, p.catalog.Bury(t.Context(), "day-1", "", "deleted", false))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := daily(t, 2)
			damage(t, p)
			for _, dry := range []bool{true, false} {
				_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "day-2", Rate: fast, DryRun: dry})
				require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "the only restorable backup of cluster tidb/prod")
			}
			_, err := p.catalog.Load(t.Context(), "day-2")
			require.NoError(t, err)
		})
	}
}

// sealsAfterCheck is an account in which something happens in the last call of a deletion's checks.
type sealsAfterCheck struct {
	*account
	seal func()
}

func (s *sealsAfterCheck) SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.SnapshotLock, error) {
	s.seal()
	return s.account.SnapshotLocks(ctx, ids)
}

// A backup is sealed after it was checked as one without a seal, before or while it is buried: whether it is the last
// is unknown.
func TestDelete_SealedAfterTheCheck_Stays(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(p *place, seal func()) Deps{
		"before it is buried": func(p *place, seal func()) Deps {
			return Deps{EBS: &sealsAfterCheck{p.ec2, seal}, Store: p.deps.Store}
		},
		"while it is buried": func(p *place, seal func()) Deps {
			return Deps{EBS: p.ec2, Store: &written{Store: p.deps.Store, before: func(key string) error {
				if key == manifest.SealKey("b") {
					seal()
				}
				return nil
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, once := newPlace(t), sync.Once{}
			deps := meanwhile(p, func() { once.Do(func() { p.seal(t) }) })
			_, err := Delete(t.Context(), deps, DeleteOptions{Backup: "b", Rate: fast})
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			_, err = p.catalog.Load(t.Context(), "b")
			require.NoError(t, err)
			require.Len(t, p.ec2.ids(), 2)
		})
	}
}
