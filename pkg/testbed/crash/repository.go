package crash

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	archivelease "github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

// inRepository reports whether the run is of a command that uses archives alone.
func (r Run) inRepository() bool {
	return slices.Contains([]Run{ArchivePrune, ArchiveForget, ArchiveRotate, ArchiveRepair, ArchiveVerify}, r)
}

// makeArchives creates a repository with the archives "all", "few" and "other", which share a pack. For a prune "all" is
// forgotten, so that the pack is mostly unused, and there is another pack that none refers to.
func (s *scene) makeArchives(ctx context.Context) error {
	if err := s.initRepo(ctx); err != nil {
		return err
	}
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := sharePack(ctx, r, "all", "few", "other"); err != nil {
		return err
	}
	if s.run == ArchiveRepair {
		return damageArchives(ctx, r)
	}
	if s.run != ArchivePrune {
		return nil
	}
	if _, err := randomPack(ctx, r, 1); err != nil {
		return err
	}
	return prune.Forget(ctx, r, "all")
}

// damageArchives loses the pack that the archives share, of which another archive has the same blocks in another one, and
// the map of an archive of which another one has the like.
func damageArchives(ctx context.Context, r *repository.Repository) error {
	packs, err := r.Packs(ctx)
	if err != nil {
		return err
	}
	if err := sharePack(ctx, r, "twin"); err != nil {
		return err
	}
	few, err := r.Archive(ctx, "few")
	if err != nil {
		return err
	}
	for name := range packs.Names() {
		err = errors.Join(err, r.Objects().Delete(ctx, name.Path()))
	}
	return errors.Join(err, r.Objects().Delete(ctx, few.Stores[0].Volumes[0].Segments[0].Path()))
}

// sharePack makes archives of one pack: the first has all of its blocks, and the others the same two.
func sharePack(ctx context.Context, r *repository.Repository, ids ...string) error {
	all, err := randomPack(ctx, r, 12)
	if err != nil {
		return err
	}
	few := make(format.Segment, len(all))
	few[3], few[7] = all[3], all[7]
	for i, id := range ids {
		if err := commitArchive(ctx, r, id, i+1, all); err != nil {
			return err
		}
		all = few
	}
	return nil
}

// randomPack stores a pack of so many blocks.
func randomPack(ctx context.Context, r *repository.Repository, blocks int) (s format.Segment, err error) {
	packing := r.Pack(ctx, repository.PackOptions{Names: format.NewPackNames(), Level: codec.None, Packers: 1, Way: repository.Way{Uploads: 1}})
	packer, err := packing.Packer()
	if err != nil {
		return nil, err
	}
	random, raw := rand.NewChaCha8([32]byte{byte(blocks)}), make([]byte, codec.MaxBlock)
	for range blocks {
		_, _ = random.Read(raw) // has no error
		place, err := packer.Add(format.Origin{}, sha256.Sum256(raw), raw)
		if err != nil {
			return nil, err
		}
		s = append(s, place)
	}
	return s, errors.Join(packer.Flush(), packing.Wait())
}

// commitArchive commits an archive of one volume; of two, that of the larger number is the newer one.
func commitArchive(ctx context.Context, r *repository.Repository, id string, number int, s format.Segment) error {
	v := format.Volume{Role: "data", Size: int64(len(s)) * codec.MaxBlock, Proofs: []format.Digest{s.Proof()}}
	v.Counts = v.Counts.Plus(s)
	sum := format.NewChecksum()
	for _, place := range s {
		if place.State == format.Saved {
			sum.Add(place.Block.Digest)
		}
	}
	v.Checksum = sum.Sum()
	name, err := r.PutSegment(ctx, s)
	if err != nil {
		return err
	}
	v.Segments = []format.SegmentName{name}
	return r.Commit(ctx, id, &format.Archive{
		Backup: id, BackupTS: saturate.To[uint64](number) << 40, Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	})
}

// tidy prunes after a repair, which deletes nothing, and leaves what a killed one wrote, and after a verification, of which
// a killed one leaves its lease.
func (s *scene) tidy(ctx context.Context) error {
	if s.run != ArchiveRepair && s.run != ArchiveVerify {
		return nil
	}
	return s.succeeds(ctx, append(s.pruneArgs(), "--break-leases-after", "2h")...)
}

// readRepository reads what is in the repository: its archives, and whether something is left over.
func (s *scene) readRepository(ctx context.Context, docs map[string]any) error {
	if err := s.tidy(ctx); err != nil {
		return err
	}
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	ids, err := r.Archives(ctx)
	if err != nil {
		return err
	}
	archives := map[string]any{}
	for _, id := range ids {
		a, err := r.Archive(ctx, id)
		if err != nil {
			return err
		}
		archives[id] = a.Stores[0].Volumes[0].Checksum
	}
	report, err := prune.Run(ctx, r, prune.Options{DryRun: true, MinAge: -24 * time.Hour, MaxUnused: 0.1})
	if err != nil {
		return err
	}
	left := map[string]any{"packs": report.Garbage.Packs, "unused": report.Rewriting.Packs}
	for _, prefix := range []string{format.LeasePrefix, format.CondemnedPrefix} {
		objects, err := r.Objects().List(ctx, prefix)
		if err != nil {
			return err
		}
		left[prefix] = len(objects)
	}
	docs["repository"] = map[string]any{"archives": archives, "left": left}
	return nil
}

// verifyRepository proves that each block is what it was, and that the repository can be written.
func (s *scene) verifyRepository(ctx context.Context) error {
	if err := s.succeeds(ctx, s.inRepo("verify")...); err != nil {
		return err
	}
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	segment, err := randomPack(ctx, r, 2)
	if err == nil {
		err = commitArchive(ctx, r, "new", 4, segment)
	}
	if err != nil {
		return err
	}
	return s.succeeds(ctx, s.inRepo("verify", "new")...)
}

// leasesEnd makes the leases of the repository look dead, as time does.
func (s *scene) leasesEnd(ctx context.Context) error {
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = ageLeases(ctx, r.Objects())
	return err
}

// ageLeases makes all leases look as if they had not been renewed for days, and returns how many.
func ageLeases(ctx context.Context, objects objstore.Store) (aged int, err error) {
	all, err := objects.List(ctx, format.LeasePrefix)
	if err != nil {
		return 0, err
	}
	for _, o := range all {
		text, version, err := objects.Get(ctx, o.Key)
		if failure.Is(err, failure.NotFound) {
			continue
		}
		if err != nil {
			return aged, err
		}
		var record archivelease.Record
		if err := json.Unmarshal(text, &record); err != nil {
			return aged, err
		}
		record.Renewed = record.Renewed.AddDate(0, 0, -3)
		if text, err = json.Marshal(record); err != nil {
			return aged, err
		}
		switch _, err = objects.Replace(ctx, o.Key, text, version); {
		case err == nil:
			aged++
		case !failure.Is(err, failure.Conflict): // it was renewed
			return aged, err
		}
	}
	return aged, nil
}

// suspendedInRepository stops the program at the cell until its lease was broken and the same command has ended in another
// process. When it is continued, it may end as if nothing had been, or report that its lease was broken; it replaces no
// archive.
func (s *scene) suspendedInRepository(ctx context.Context, cell Cell, undisturbed result) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, _, end, err := s.asleep(ctx, cell, s.args())
	defer end(cancel)
	if err != nil {
		return err
	}
	if err := wait.For(ctx, stopTime); err != nil {
		return err
	}
	if err := errors.Join(s.leasesEnd(ctx), s.succeeds(ctx, s.args()...), s.tidy(ctx)); err != nil {
		return fmt.Errorf("the second process: %w", err)
	}
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	before, err := r.Versions(ctx)
	if err != nil {
		return err
	}
	p.wake()
	after, err := r.Versions(ctx)
	switch {
	case err != nil:
		return err
	case p.code != 0 && p.code != exitConflict:
		return errors.Join(fmt.Errorf("the process that was suspended ended with %d", p.code), p.err)
	case !maps.Equal(before, after):
		return fmt.Errorf("the process that was suspended changed archives: %v, and %v before", slices.Sorted(maps.Keys(after)), before)
	}
	if err := errors.Join(s.leasesEnd(ctx), s.succeeds(ctx, s.args()...)); err != nil { // it may have left packs
		return fmt.Errorf("the third process: %w", err)
	}
	if err := s.makes(ctx, undisturbed); err != nil {
		return err
	}
	return s.verifyResult(ctx)
}
