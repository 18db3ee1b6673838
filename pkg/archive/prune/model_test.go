package prune_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

const volumes = 2

// job is what a writer's run has journalled, and its processes share.
type job struct {
	id       string
	begun    bool // it may have a lease
	ended    bool // committed, or given up
	segments [volumes]format.SegmentName
}

// world is a repository, its clients, and their claims.
type world struct {
	gates
	t      *testing.T
	owner  *age.X25519Identity
	refers map[string][]string    // by archive and version
	repo   *repository.Repository // whose calls do not wait

	mu        sync.Mutex
	jobs      []*job
	processes map[*process]bool // that run
	claims    []string          // that prove a fault of the rules
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, gates: gates{store: objstoretest.NewMemory(nil)}, processes: map[*process]bool{}, refers: map[string][]string{}}
	var err error
	w.repo, w.owner, err = archivetest.New(w.t.Context(), w.store, format.MaxSealed)
	require.NoError(t, err)
	return w
}

// start runs a client in a process of its own.
func (w *world) start(client func(ctx context.Context, r *repository.Repository) error) {
	p := w.process()
	p.free = true
	r, err := repository.Open(w.t.Context(), p, w.owner)
	p.free = false
	if err != nil {
		panic(err) // the store has no fault
	}
	w.mu.Lock()
	w.processes[p] = true
	w.mu.Unlock()
	go func() {
		_ = client(w.t.Context(), r)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.processes, p)
	}()
}

// write is a process of a run that makes an archive: by the same rules, and by the same calls, as archive/create.
func (w *world) write(j *job, pick int) func(context.Context, *repository.Repository) error {
	return func(ctx context.Context, r *repository.Repository) error {
		var err error
		if w.beginning(j) {
			_, err = lease.Write(ctx, r.Objects(), j.id, "writer")
		} else {
			_, err = lease.Resume(ctx, r.Objects(), j.id)
		}
		if err != nil {
			return err
		}
		condemned, err := lease.ReadCondemned(ctx, r.Objects())
		if err != nil {
			return err
		}
		base, err := w.base(ctx, r, pick)
		if err != nil {
			return err
		}
		a := &format.Archive{Backup: j.id, Manifest: format.NewManifest(nil)}
		for v := range volumes {
			name, err := w.volume(ctx, r, j, v, pick, base, condemned)
			if err != nil {
				return err
			}
			a.Stores = append(a.Stores, format.Store{ID: uint64(v), Volumes: []format.Volume{{
				Role: "data", Size: 2 * codec.MaxBlock, Segments: []format.SegmentName{name}, Counts: format.Counts{Saved: 2},
			}}})
		}
		for range 3 {
			err = r.Commit(ctx, j.id, a)
			if err == nil || failure.Is(err, failure.Conflict) {
				break
			}
		}
		if failure.Is(err, failure.Conflict) {
			_, err = r.Archive(ctx, j.id)
		}
		if err != nil {
			return err
		}
		j.ended = true
		return lease.End(ctx, r.Objects(), j.id)
	}
}

func (w *world) beginning(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !j.begun
	j.begun = true
	return first
}

// base is any archive that is there; nil for none.
func (w *world) base(ctx context.Context, r *repository.Repository, pick int) (*format.Archive, error) {
	ids, err := r.Archives(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	a, err := r.Archive(ctx, ids[pick%len(ids)])
	if failure.Is(err, failure.NotFound) {
		return nil, nil
	}
	return a, err
}

// volume writes a volume's segment, or refers to the base's.
func (w *world) volume(
	ctx context.Context, r *repository.Repository, j *job, v, pick int, base *format.Archive, condemned *lease.Condemned,
) (name format.SegmentName, err error) {
	w.mu.Lock()
	name = j.segments[v]
	w.mu.Unlock()
	if name != (format.SegmentName{}) {
		return name, nil
	}
	places := make(format.Segment, 2)
	var from []format.SegmentName
	if base != nil {
		from = base.Stores[v].Volumes[0].Segments
		may, err := condemned.Allows(ctx, r, from)
		if err != nil {
			return name, err
		}
		if may {
			s, err := r.Segment(ctx, from[0])
			if err != nil {
				return name, err
			}
			copy(places, s)
		} else {
			from = nil
		}
	}
	changed := pick & (1 << v) // one block of some volumes
	if pick&(12<<(2*v)) == 0 {
		from, places = nil, format.Segment{{State: format.Zero}, {State: format.Zero}}
	}
	var fresh []int
	for i := range places {
		if from == nil && places[i].State == format.Absent || from != nil && changed != 0 && i == pick&1 {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) > 0 {
		packed, err := pack(ctx, r, j.id, len(fresh))
		if err != nil {
			return name, err
		}
		for n, i := range fresh {
			places[i] = packed[n]
		}
	}
	if from != nil && changed == 0 {
		name = from[0]
	} else if name, err = r.PutSegment(ctx, places); err != nil {
		return name, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.segments[v] = name
	return name, nil
}

// pack writes a pack of so many blocks, each of a few of the parts by which a prune estimates what is unused.
func pack(ctx context.Context, r *repository.Repository, id string, blocks int) (out []format.Place, err error) {
	name := format.NewPackName()
	var text bytes.Buffer
	w, err := format.NewPackWriter(&text, r.Keys(), format.Source{Archive: id}, name)
	if err != nil {
		return nil, err
	}
	for i := range blocks {
		raw := bytes.Repeat(fmt.Append(nil, i, name), 1500)
		b, err := w.Add(format.Origin{}, sha256.Sum256(raw), len(raw), codec.Stored, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, format.Place{State: format.Saved, Pack: w.Ref(), Block: b})
	}
	if err = w.Close(); err == nil {
		err = r.PutPack(ctx, name, text.Bytes())
	}
	return out, err
}

// restore reads all of an archive. What is missing must be explained by a lease that was broken.
func (w *world) restore(pick int) func(context.Context, *repository.Repository) error {
	return func(ctx context.Context, r *repository.Repository) error {
		l, err := lease.Read(ctx, r.Objects(), "restore")
		if err != nil {
			return err
		}
		a, err := w.base(ctx, r, pick)
		if err != nil || a == nil {
			return err
		}
		var missing error
		for _, s := range a.Stores {
			m, err := r.Segment(ctx, s.Volumes[0].Segments[0])
			if err == nil {
				err = r.ReadBlocks(ctx, m, 1, func(_ context.Context, i int, block []byte, lost error) error {
					if lost == nil && sha256.Sum256(block) != m[i].Block.Digest {
						return failure.New(failure.Corrupt, "", "", "a block is another one")
					}
					return lost
				})
			}
			if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
				missing = err
			}
		}
		err = l.Release(ctx)
		if missing != nil && err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claims = append(w.claims, fmt.Sprintf("a restore with a lease misses: %v", missing))
		}
		return err
	}
}

// whole makes sure that no archive lacks anything, and returns the keys of what archives refer to.
func (w *world) whole() (map[string]bool, error) {
	there := map[string]bool{}
	all, err := w.store.List(w.t.Context(), "")
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		there[o.Key] = true
	}
	used := map[string]bool{}
	for _, o := range all {
		id, is := strings.CutPrefix(o.Key, format.ArchivePrefix)
		if !is || o.Size == int64(len(format.Tombstone)) {
			continue
		}
		version := id + string(o.Version)
		if w.refers[version] == nil {
			if w.refers[version], err = w.references(id); err != nil {
				return nil, fmt.Errorf("archive %s: %w", id, err)
			}
		}
		for _, key := range w.refers[version] {
			if used[key] = true; !there[key] {
				return nil, fmt.Errorf("archive %s lacks %s", id, key)
			}
		}
	}
	return used, nil
}

// references are the keys that an archive refers to.
func (w *world) references(id string) (keys []string, err error) {
	a, err := w.repo.Archive(w.t.Context(), id)
	if err != nil {
		return nil, err
	}
	for _, s := range a.Stores {
		name := s.Volumes[0].Segments[0]
		keys = append(keys, name.Path())
		m, err := w.repo.Segment(w.t.Context(), name)
		if err != nil {
			return nil, err
		}
		for _, p := range m {
			if p.State != format.Saved {
				continue
			}
			keys = append(keys, p.Pack.Name.Path())
		}
	}
	return keys, nil
}

// stop kills all processes.
func (w *world) stop() {
	w.mu.Lock()
	for p := range w.processes {
		p.kill()
	}
	w.mu.Unlock()
	synctest.Wait()
}

// script are the choices of a model's run.
type script []uint16

// next is a choice of n.
func (s *script) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	v := int((*s)[0]) % n
	*s = (*s)[1:]
	return v
}

// model lets three writers' runs, each in any number of processes, prunes, restores and forgets run in any order of
// their calls, with kills, processes that are suspended, and answers that are lost.
func model(w *world, choose *script) error {
	scene := choose.next(4)
	if err := []func() error{w.beginUnused, w.beginUnused, w.begin, func() error { return nil }}[scene](); err != nil {
		return err
	}
	kinds := "WWWPPRFX" // of clients
	if scene < 2 {
		kinds = "WPPPPRFX"
	}
	breaking := choose.next(2) == 1 // every lease, at once
	w.anyVersion = choose.next(2) == 1
	var last *process
	for len(*choose) > 0 {
		<-time.After(time.Millisecond)
		synctest.Wait()
		pending := w.pending()
		if len(pending) == 0 || choose.next(12) == 0 && len(w.processes) < 8 {
			w.client(choose, kinds, breaking)
			continue
		}
		same := slices.DeleteFunc(slices.Clone(pending), func(c *call) bool { return c.process != last })
		if len(same) > 0 && choose.next(8) > 0 {
			pending = same // the others are suspended
		}
		c := pending[choose.next(len(pending))]
		last = c.process
		f := done
		if choose.next(30) == 0 {
			f = []fate{lost, unsent, killed}[choose.next(3)]
		}
		w.pass(c, f)
		synctest.Wait()
		if _, err := w.whole(); err != nil {
			return fmt.Errorf("after %s: %w", c.name, err)
		}
		if len(w.claims) > 0 {
			return fmt.Errorf("after %s: %s", c.name, w.claims[0])
		}
	}
	return w.quiet()
}

// client starts a client.
func (w *world) client(choose *script, kinds string, breaking bool) {
	pick := choose.next(1 << 10)
	switch kinds[choose.next(len(kinds))] {
	case 'W':
		w.start(w.write(w.job(pick), pick))
	case 'P':
		o := prune.Options{BreakAfter: -1, MinAge: -time.Hour * time.Duration(pick&1), MaxUnused: float64(pick >> 1 & pick >> 2 & 1)}
		if breaking {
			o.BreakAfter = 0
		}
		w.start(func(ctx context.Context, r *repository.Repository) error {
			_, err := prune.Run(ctx, r, o)
			return err
		})
	case 'R':
		w.start(w.restore(pick))
	case 'X':
		if pick&1 == 1 {
			w.damage(pick >> 1)
		}
		w.start(repairAll)
	case 'F':
		w.start(func(ctx context.Context, r *repository.Repository) error {
			ids, err := r.Archives(ctx)
			if err != nil || len(ids) == 0 {
				return err
			}
			return prune.Forget(ctx, r, ids[pick%len(ids)])
		})
	}
}

// job is a new run, or one that has not ended, whether or not another process of it is suspended.
func (w *world) job(pick int) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if open := slices.DeleteFunc(slices.Clone(w.jobs), func(j *job) bool { return j.ended }); len(open) >= 3 {
		return open[pick%len(open)]
	}
	j := &job{id: fmt.Sprintf("archive-%d", len(w.jobs))}
	w.jobs = append(w.jobs, j)
	return j
}

// quiet ends all processes: after two prunes nothing dead is left.
func (w *world) quiet() error {
	w.stop()
	if err := repairAll(w.t.Context(), w.repo); err != nil {
		return fmt.Errorf("a quiet repair: %w", err)
	}
	for range 2 {
		report, err := prune.Run(w.t.Context(), w.repo, prune.Options{MinAge: -time.Hour})
		if err != nil {
			return fmt.Errorf("a quiet prune: %w", err)
		}
		if report.UnusedBytes > 0 {
			return fmt.Errorf("%d bytes of packs are unused", report.UnusedBytes)
		}
	}
	used, err := w.whole()
	if err != nil {
		return fmt.Errorf("after quiet prunes: %w", err)
	}
	ids, err := w.repo.Archives(w.t.Context())
	for i := range ids {
		err = errors.Join(err, w.restore(i)(w.t.Context(), w.repo))
	}
	if err != nil || len(w.claims) > 0 {
		return fmt.Errorf("after quiet prunes: %w, %s", err, w.claims)
	}
	all, err := w.store.List(w.t.Context(), "")
	for _, o := range all {
		data := strings.HasPrefix(o.Key, format.PackPrefix) || strings.HasPrefix(o.Key, format.SegmentPrefix)
		other := strings.HasPrefix(o.Key, format.LeasePrefix) || strings.HasPrefix(o.Key, format.CondemnedPrefix)
		if data && !used[o.Key] || other {
			return fmt.Errorf("%s is left", o.Key)
		}
	}
	return err
}

// No archive loses a block, no restore misses one unless its lease was broken, and nothing dead stays.
func TestModel_ManyClients_NoArchiveLosesABlock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)) // rapid's own numbers are mostly small
		choose := make(script, rapid.IntRange(900, 2400).Draw(rt, "choices"))
		for i := range choose {
			choose[i] = uint16(random.Uint32())
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			err = model(w, &choose)
			w.stop()
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
