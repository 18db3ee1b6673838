package prune_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// tenth rewrites packs until a tenth is unused.
func tenth() prune.Options {
	o := now()
	o.MaxUnused = 0.1
	return o
}

// commit commits an archive of these blocks.
func (l *lab) commit(t *testing.T, id string, places ...format.Place) format.SegmentName {
	t.Helper()
	name, err := l.repo.PutSegment(t.Context(), places)
	require.NoError(t, err)
	require.NoError(t, l.repo.Commit(t.Context(), id, archiveOf(id, name, len(places))))
	return name
}

func archiveOf(id string, s format.SegmentName, blocks int) *format.Archive {
	return &format.Archive{
		Backup: id, Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{
			Role: "data", Size: int64(blocks) * codec.MaxBlock, Segments: []format.SegmentName{s},
			Counts: format.Counts{Saved: int64(blocks)},
		}}}},
	}
}

// mostlyUnused makes a pack of eight blocks, of which the archives "kept" and "other" have one.
func (l *lab) mostlyUnused(t *testing.T) format.Place {
	t.Helper()
	places, err := pack(t.Context(), l.repo, "old", 8)
	require.NoError(t, err)
	l.commit(t, "old", places...)
	name := l.commit(t, "kept", places[5])
	require.NoError(t, l.repo.Commit(t.Context(), "other", archiveOf("other", name, 1)))
	l.forget(t, "old")
	return places[5]
}

// block is the only one of an archive: where it is, as it is read.
func (l *lab) block(t *testing.T, id string) (place format.Place) {
	t.Helper()
	a, err := l.repo.Archive(t.Context(), id)
	require.NoError(t, err)
	s, err := l.repo.Segment(t.Context(), a.Stores[0].Volumes[0].Segments[0])
	require.NoError(t, err)
	require.NoError(t, l.repo.ReadBlocks(t.Context(), s, 1, func(_ context.Context, i int, raw []byte, lost error) error {
		place = s[i]
		require.Equal(t, place.Block.Digest, format.Digest(sha256.Sum256(raw)))
		return lost
	}))
	return place
}

// A block that is still in use is copied as it is, once for all archives, and its pack is deleted.
func TestRun_MostlyUnusedPack_IsRewritten(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.mostlyUnused(t)
	full := l.put(t, "full", 1)
	dry := tenth()
	dry.DryRun = true
	plan, err := prune.Run(t.Context(), l.repo, dry)
	require.NoError(t, err)
	require.EqualValues(t, 1, plan.Rewriting.Packs)
	require.Positive(t, plan.Rewriting.FreedBytes)
	require.Positive(t, plan.Rewriting.WrittenBytes)
	require.Equal(t, old, l.block(t, "kept"))
	none, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.Zero(t, none.Rewriting)
	require.Equal(t, none.UnusedBytes, plan.UnusedBytes)

	report, err := prune.Run(t.Context(), l.repo, tenth())
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Rewriting.Packs)
	require.EqualValues(t, 2, report.Rewriting.Archives)
	require.EqualValues(t, old.Block.Length, report.Rewriting.ReadBytes)
	require.Greater(t, report.Rewriting.WrittenBytes, report.Rewriting.ReadBytes)
	require.EqualValues(t, 1, report.Deleted.Packs)
	require.Zero(t, report.UnusedBytes)
	require.False(t, l.has(t, old.Pack.Name))
	require.True(t, l.has(t, full))
	kept := l.block(t, "kept")
	require.Equal(t, kept, l.block(t, "other"))
	require.NotEqual(t, old.Pack, kept.Pack)
	old.Block.Offset = kept.Block.Offset
	require.Equal(t, old.Block, kept.Block)
	packs, err := l.repo.Packs(t.Context())
	require.NoError(t, err)
	size, _ := packs.Of(kept.Pack.Name)
	c, err := l.repo.Contents(t.Context(), kept.Pack.Name, size)
	require.NoError(t, err)
	require.Equal(t, format.Source{Volumes: []format.SourceVolume{{Store: 1, Role: "data"}}}, c.Source)

	again, err := prune.Run(t.Context(), l.repo, tenth())
	require.NoError(t, err)
	require.Zero(t, again.Rewriting)
	require.Zero(t, again.Garbage)
	left, err := lease.All(t.Context(), l.Memory)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Packs that are unused most come first, and no more than needed are rewritten.
func TestRun_PacksUnusedMost_ComeFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var most, less format.Place
	for i, used := range []int{1, 6} {
		places, err := pack(t.Context(), l.repo, "old", 8)
		require.NoError(t, err)
		l.commit(t, []string{"a", "b"}[i], places[:used]...)
		most, less = less, places[0]
	}
	o := now()
	o.MaxUnused = 0.3
	report, err := prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Rewriting.Packs)
	require.False(t, l.has(t, most.Pack.Name))
	require.True(t, l.has(t, less.Pack.Name))
}

// An archive that is forgotten while its blocks are copied stays forgotten, and the others are replaced.
func TestRun_ForgottenWhileRewriting_StaysForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.mostlyUnused(t)
	l.once(format.PackPrefix, 513, func() { l.forget(t, "kept") }) // the first block, after the lists
	report, err := prune.Run(t.Context(), l.repo, tenth())
	require.NoError(t, err)
	require.Equal(t, 1, report.Rewriting.Left)
	require.Equal(t, 1, report.Rewriting.Archives)
	_, err = l.repo.Archive(t.Context(), "kept")
	require.True(t, failure.Is(err, failure.NotFound))
	l.block(t, "other")
}

// Who forgets an archive that is replaced at the same time does so.
func TestForget_ReplacedMeanwhile_IsForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put(t, "a", 1)
	l.after = func(key string) {
		if key == format.ArchivePrefix+"a" {
			l.after = nil
			require.NoError(t, l.repo.SealAgain(t.Context()))
		}
	}
	l.forget(t, "a")
	_, err := l.repo.Archive(t.Context(), "a")
	require.True(t, failure.Is(err, failure.NotFound))
}

// broken breaks all leases, as another prune does.
func (l *lab) broken(t *testing.T) {
	t.Helper()
	o := now()
	o.BreakAfter = 0
	report, err := prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.Len(t, report.Broken, 1)
}

// A prune that sleeps over the end of its lease replaces no archive: neither one that it had read before, nor one that
// it reads afterwards.
func TestRun_LeaseOfRewritingIsBroken_ReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		prefix string
		n      int
	}{
		"before the archives are read": {format.ArchivePrefix + "kept", 2},
		"between the archives":         {format.ArchivePrefix + "other", 2},
		"while blocks are copied":      {format.PackPrefix, 513},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			old := l.mostlyUnused(t)
			l.once(at.prefix, at.n, func() { l.broken(t) })
			_, err := prune.Run(t.Context(), l.repo, tenth())
			require.True(t, failure.Is(err, failure.Conflict), "%v", err)
			require.Equal(t, old, l.block(t, "kept"))
			require.Equal(t, old, l.block(t, "other"))
			report, err := prune.Run(t.Context(), l.repo, tenth())
			require.NoError(t, err)
			require.Equal(t, 2, report.Rewriting.Archives)
			l.block(t, "kept")
		})
	}
}

// A prune that has read an archive reads it again once it was replaced: the new packs were condemned before.
func TestRun_ArchiveIsReplacedMeanwhile_IsReadAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put(t, "a", 1)
	held, err := lease.Rewrite(t.Context(), l.Memory, "prune")
	require.NoError(t, err)
	places, err := pack(t.Context(), l.repo, "", 1)
	require.NoError(t, err)
	name, err := l.repo.PutSegment(t.Context(), places)
	require.NoError(t, err)
	l.once(format.LeasePrefix, 5, func() { // after the archives were read, and the pack was condemned
		_, version, err := l.repo.ArchiveVersion(t.Context(), "a")
		require.NoError(t, err)
		_, err = l.repo.Recommit(t.Context(), "a", archiveOf("a", name, 1), version)
		require.NoError(t, err)
		require.NoError(t, held.Release(t.Context()))
	})
	report, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Garbage.Packs)
	require.EqualValues(t, 1, report.Kept.Packs)
	l.block(t, "a")
}

// A block that is damaged stays where it is, and is reported; the rest is rewritten.
func TestRun_DamagedBlock_StaysInItsPack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bad := l.mostlyUnused(t)
	places, err := pack(t.Context(), l.repo, "old", 8)
	require.NoError(t, err)
	l.commit(t, "sound", places[0])
	object, version, err := l.Memory.Get(t.Context(), bad.Pack.Name.Path())
	require.NoError(t, err)
	object[bad.Block.Offset] ^= 1
	_, err = l.Replace(t.Context(), bad.Pack.Name.Path(), object, version)
	require.NoError(t, err)
	report, err := prune.Run(t.Context(), l.repo, tenth())
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.EqualValues(t, 1, report.Rewriting.Damaged)
	require.Equal(t, 1, report.Rewriting.Archives)
	require.True(t, l.has(t, bad.Pack.Name))
	require.False(t, l.has(t, places[0].Pack.Name))
	l.block(t, "sound")
}

// A block whose content is not that of its digest, though a key holder sealed it so, is not copied.
func TestRun_BlockOfAnotherDigest_IsNotCopied(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := format.NewPackName()
	var text bytes.Buffer
	w, err := format.NewPackWriter(&text, l.repo.Keys(), format.Source{}, name)
	require.NoError(t, err)
	var wrong format.Block
	for range 8 {
		wrong, err = w.Add(format.Origin{}, format.Digest{1}, 40000, codec.Stored, make([]byte, 40000))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, l.repo.PutPack(t.Context(), name, text.Bytes()))
	l.commit(t, "a", format.Place{State: format.Saved, Pack: w.Ref(), Block: wrong})
	report, err := prune.Run(t.Context(), l.repo, tenth())
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.EqualValues(t, 1, report.Rewriting.Damaged)
	require.Zero(t, report.Rewriting.Archives)
}

// An archive is replaced only once the packs that it is going to refer to are stored.
func TestRun_PackCannotBeWritten_ReplacesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.mostlyUnused(t)
	l.refuse = format.PackPrefix
	_, err := prune.Run(t.Context(), l.repo, tenth())
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	require.Equal(t, old, l.block(t, "kept"))
}

// Where the storage ignores conditional writes, or another prune is at it, nothing is rewritten.
func TestRun_MayNotRewrite_ReportsWhy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.mostlyUnused(t)
	held, err := lease.Rewrite(t.Context(), l.Memory, "the other one")
	require.NoError(t, err)
	report, err := prune.Run(t.Context(), l.repo, tenth())
	require.NoError(t, err)
	require.Contains(t, report.Rewriting.None, "the other one")
	require.Zero(t, report.Rewriting.Archives)
	require.NoError(t, held.Release(t.Context()))

	keys := l.repo.Keys()
	slot, err := keys.PassphraseSlot("safe", strings.Repeat("x", 20))
	require.NoError(t, err)
	single, err := repository.Init(t.Context(), objstoretest.NewMemory(nil), keys, []format.Slot{slot}, format.Settings{PackSize: 2 << 20})
	require.NoError(t, err)
	s := &lab{hooked: &hooked{Memory: single.Objects().(*objstoretest.Memory)}, repo: single}
	old := s.mostlyUnused(t)
	report, err = prune.Run(t.Context(), single, tenth())
	require.NoError(t, err)
	require.Contains(t, report.Rewriting.None, "conditional")
	require.Equal(t, old, s.block(t, "kept"))
}

// The lease of another prune that died is broken after two hours, whatever is allowed to runs.
func TestRun_RewriterDied_IsBrokenSoon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := l.Create(t.Context(), format.LeasePrefix+"rewrite-x", []byte(`{"rewriter": true, "renewed": "2026-01-01T00:00:00Z"}`))
	require.NoError(t, err)
	_, err = l.Create(t.Context(), format.LeasePrefix+"read-x", []byte(`{"renewed": "2026-01-01T00:00:00Z"}`))
	require.NoError(t, err)
	o := now()
	o.BreakAfter = 1 << 62
	report, err := prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.Equal(t, []string{format.LeasePrefix + "rewrite-x"}, report.Broken)
}
