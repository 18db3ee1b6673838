package repair_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

func TestRun_Sound_ChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "a", "", 1, 2, 0)
	before := l.keys(t)
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Repaired)
	require.Empty(t, report.Left)
	require.Equal(t, before, l.keys(t))
}

// Blocks of lost packs are copied from another archive that has the same ones, and the damage is gone for all archives
// that had it. What was damaged is deleted by the next prune alone.
func TestRun_LostPack_IsRepairedFromAnotherArchive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2, 3, 0, 5)
	l.archive(t, "shares", "a", 1, 2, 3, 0, 5)
	other := l.archive(t, "other", "", 9, 5, 3)
	l.lose(t, a[2])
	l.flip(t, a[4].Pack.Name.Path(), int(a[4].Block.Offset))
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Left)
	require.Len(t, report.Repaired, 4)
	first := report.Repaired[0]
	require.Equal(t, "a", first.Archive)
	require.Equal(t, "tidb/prod", first.Cluster)
	require.EqualValues(t, 4, first.Store)
	require.Equal(t, []verify.Range{{First: 2, Last: 2}}, first.Blocks)
	require.Equal(t, "pack "+other[2].Pack.Name.String(), first.From)
	require.EqualValues(t, 2, report.Blocks)
	require.Equal(t, 2, report.Replaced)
	require.Positive(t, report.Bytes)
	l.isWhole(t, "a", 1, 2, 3, 0, 5)
	l.isWhole(t, "shares", 1, 2, 3, 0, 5)
	require.Equal(t, a[0], l.segment(t, "a")[0])
	pruned, err := prune.Run(t.Context(), l.Repository, prune.Options{MinAge: -time.Hour, MaxUnused: 1})
	require.NoError(t, err)
	require.Positive(t, pruned.Deleted.Packs)
	require.NotContains(t, l.keys(t), a[4].Pack.Name.Path())
	l.isWhole(t, "a", 1, 2, 3, 0, 5)
	l.isWhole(t, "other", 9, 5, 3)
}

// What the volume was read from has its blocks still. One that is another by now is not taken.
func TestRun_LostPack_IsRepairedFromAnImage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2, 3, 4)
	l.lose(t, a[1], a[2])
	o := l.options(t)
	o.Outside = image("disk", 1, 2, 33, 4)
	report := l.repair(t, o)
	require.Len(t, report.Repaired, 1)
	require.Equal(t, "disk", report.Repaired[0].From)
	require.Equal(t, []verify.Range{{First: 1, Last: 1}}, report.Repaired[0].Blocks)
	require.Len(t, report.Left, 1)
	require.Equal(t, []verify.Range{{First: 2, Last: 2}}, report.Left[0].Blocks)
	require.Contains(t, report.Left[0].Problem, "it is missing")
	o.Outside = image("disk", 1, 2, 3, 4)
	report = l.repair(t, o)
	require.Empty(t, report.Left)
	l.isWhole(t, "a", 1, 2, 3, 4)
}

// Nothing is written for what nothing has, and it is listed.
func TestRun_NothingHasIt_IsListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2, 3, 4, 5)
	l.lose(t, a[1], a[2], a[4])
	o := l.options(t)
	o.Outside = image("small", 1)
	report := l.repair(t, o)
	require.Len(t, report.Left, 3)
	require.Empty(t, report.Failed)
	o.Outside = func(context.Context, *format.Archive, uint64, format.Volume) []repair.Origin {
		return []repair.Origin{{Name: "gone", Source: &volume.Image{Bytes: 5 * codec.MaxBlock, From: bytes.NewReader(nil)}}}
	}
	before := l.keys(t)
	report = l.repair(t, o)
	require.Empty(t, report.Repaired)
	require.Len(t, report.Left, 3)
	require.Equal(t, []verify.Range{{First: 1, Last: 1}}, report.Left[0].Blocks)
	require.Equal(t, before, l.keys(t))
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0], "gone: ")
}

// A block in a pack whose trailer alone is damaged is sound, and is copied.
func TestRun_DamagedTrailer_BlocksAreCopied(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2)
	l.flip(t, a[1].Pack.Name.Path(), -20)
	o := l.options(t)
	o.Level = verify.Headers
	report := l.repair(t, o)
	require.Empty(t, report.Left)
	require.Equal(t, "its own pack", report.Repaired[0].From)
	l.isWhole(t, "a", 1, 2)
}

// A map that is lost is made again from the trailers of its archive's packs and the base, for all that share it.
func TestRun_LostMap_IsMadeOfTrailers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "base", "", 1, 2, 3, 0, 5)
	l.archive(t, "a", "base", 1, 22, 3, 0, 5)
	l.archive(t, "b", "a", 1, 22, 33, 4, 5)
	l.loseMap(t, "base")
	l.loseMap(t, "b")
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Left)
	require.Len(t, report.Repaired, 2)
	require.Equal(t, []verify.Range{{First: 0, Last: 4}}, report.Repaired[0].Blocks)
	require.Equal(t, "the trailers of packs", report.Repaired[0].From)
	l.isWhole(t, "base", 1, 2, 3, 0, 5)
	l.isWhole(t, "b", 1, 22, 33, 4, 5)
	l.isWhole(t, "a", 1, 22, 3, 0, 5)
	counts := l.volume(t, "base").Counts
	require.Equal(t, format.Counts{Saved: 4, Free: 1}, counts, "a later archive must not rely on it")
}

// Packs of a base that is gone have what its blocks were.
func TestRun_LostMapOfAForgottenBase_IsMadeOfTrailers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "base", "", 1, 2, 3)
	l.archive(t, "a", "base", 1, 22, 3)
	require.NoError(t, prune.Forget(t.Context(), l.Repository, "base"))
	l.loseMap(t, "a")
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Left)
	l.isWhole(t, "a", 1, 22, 3)
}

// A map that may be another one is not made: the checksum of the volume would be right, and its blocks elsewhere.
func TestRun_LostMapThatIsNotProven_IsListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "base", "", 7, 0, 0)
	l.archive(t, "a", "base", 0, 7, 7)
	l.loseMap(t, "a")
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Repaired)
	require.Len(t, report.Left, 1)
	require.Equal(t, []verify.Range{{First: 0, Last: 2}}, report.Left[0].Blocks)
	require.Contains(t, report.Left[0].Problem, "nothing that is left makes the same map again")

	o := l.options(t)
	o.Outside = image("disk", 0, 7, 7)
	report = l.repair(t, o)
	require.Empty(t, report.Left)
	require.Equal(t, "disk", report.Repaired[0].From)
	l.isWhole(t, "a", 0, 7, 7)
}

// An image has what the file system had freed, which the archive does not have.
func TestRun_LostMap_ImageHasFreeBlocks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "a", "", 1, 0, 1)
	l.loseMap(t, "a")
	o := l.options(t)
	read := image("disk", 1, 99, 1)
	o.Outside = func(ctx context.Context, a *format.Archive, store uint64, v format.Volume) []repair.Origin {
		origins := read(ctx, a, store, v)
		origins[0].Free = func(context.Context) (func(int64) bool, error) {
			return func(i int64) bool { return i == 1 }, nil
		}
		return origins
	}
	report := l.repair(t, o)
	require.Empty(t, report.Left)
	l.isWhole(t, "a", 1, 0, 1)
}

// A block that the file system has freed, and that had not changed since the base, is in the archive as the base has it.
func TestRun_LostMap_ImageHasFreeBlocksThatTheBaseHas(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "base", "", 1, 0, 2)
	a := l.archive(t, "a", "base", 5, 0, 2)
	l.loseMap(t, "a")
	l.lose(t, a[0])
	o := l.options(t)
	read := image("disk", 5, 99, 2)
	o.Outside = func(ctx context.Context, a *format.Archive, store uint64, v format.Volume) []repair.Origin {
		origins := read(ctx, a, store, v)
		origins[0].Free = func(context.Context) (func(int64) bool, error) {
			return func(i int64) bool { return i > 0 }, nil
		}
		return origins
	}
	report := l.repair(t, o)
	require.Empty(t, report.Left)
	l.isWhole(t, "a", 5, 0, 2)
}

// What a map refers to that is made again is in new packs: others may be about to be deleted.
func TestRun_LostMap_RefersToNewPacksAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2)
	l.loseMap(t, "a")
	l.repair(t, l.options(t))
	for i, at := range l.segment(t, "a") {
		require.NotEqual(t, a[i].Pack, at.Pack)
	}
}

// An archive that cannot be read is listed, and the others are repaired.
func TestRun_DamagedArchive_IsListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.archive(t, "a", "", 1, 2)
	b := l.archive(t, "b", "", 1, 2)
	l.flip(t, format.ArchivePrefix+"a", -1)
	l.lose(t, b[0])
	o := l.options(t)
	o.Outside = image("disk", 1, 2)
	report := l.repair(t, o)
	require.Len(t, report.Left, 1)
	require.Equal(t, format.ArchivePrefix+"a", report.Left[0].Object)
	require.Len(t, report.Repaired, 1)
	l.isWhole(t, "b", 1, 2)
}

// An archive that is forgotten meanwhile stays so.
func TestRun_ForgottenMeanwhile_StaysForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2)
	l.archive(t, "b", "a", 1, 2)
	l.lose(t, a[0])
	o := l.options(t)
	disk := image("disk", 1, 2)
	o.Outside = func(ctx context.Context, of *format.Archive, store uint64, v format.Volume) []repair.Origin {
		require.NoError(t, prune.Forget(ctx, l.Repository, "a"))
		return disk(ctx, of, store, v)
	}
	report, err := repair.Run(t.Context(), l.Repository, o)
	require.NoError(t, err)
	require.Len(t, report.Repaired, 1)
	require.Equal(t, "b", report.Repaired[0].Archive)
	require.Len(t, report.Left, 1)
	require.Equal(t, repair.Overtaken, report.Left[0].Problem)
	_, err = l.Archive(t.Context(), "a")
	require.True(t, failure.Is(err, failure.NotFound))
	l.isWhole(t, "b", 1, 2)
}

// Without conditional writes nothing can be replaced.
func TestRun_NoConditionalWrites_Refused(t *testing.T) {
	t.Parallel()
	keys := newLab(t).Keys()
	slot, err := keys.PassphraseSlot("safe", strings.Repeat("x", 20))
	require.NoError(t, err)
	single, err := repository.Init(t.Context(), objstoretest.NewMemory(nil), keys, []format.Slot{slot},
		format.Settings{PackSize: 2 << 20})
	require.NoError(t, err)
	_, err = repair.Run(t.Context(), single, repair.Options{})
	require.True(t, failure.Is(err, failure.Unready), "%v", err)
}

// A block whose content is not that of its digest, though a key holder sealed it so, is not copied.
func TestRun_BlockOfAnotherDigest_IsNotCopied(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1)
	name := format.NewPackName()
	var text bytes.Buffer
	w, err := format.NewPackWriter(&text, l.Keys(), format.Source{}, name)
	require.NoError(t, err)
	wrong, err := w.Add(format.Origin{}, a[0].Block.Digest, codec.MaxBlock, codec.Stored, content(2))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, l.PutPack(t.Context(), name, text.Bytes()))
	l.commit(t, "b", "", format.Segment{{State: format.Saved, Pack: w.Ref(), Block: wrong}})
	l.lose(t, a[0])
	report := l.repair(t, l.options(t))
	require.Empty(t, report.Repaired)
	require.Len(t, report.Left, 2)
}

// An archive is replaced only once the packs that it is going to refer to are stored.
func TestRun_PackCannotBeWritten_ReplacesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1)
	l.archive(t, "b", "", 1)
	l.lose(t, a[0])
	before := l.volume(t, "a")
	r, err := repository.Open(t.Context(), refusing{l.store.(*objstoretest.Memory)}, l.owner)
	require.NoError(t, err)
	report, err := repair.Run(t.Context(), r, l.options(t))
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	require.Empty(t, report.Repaired)
	require.Len(t, report.Left, 1)
	require.Equal(t, before, l.volume(t, "a"))
}

// Damage of an archive that was not there when archives were read is left, and not passed over.
func TestRun_ArchiveWasNotListed_ItsDamageIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1)
	l.lose(t, a[0])
	r, err := repository.Open(t.Context(), unlisted{l.store.(*objstoretest.Memory)}, l.owner)
	require.NoError(t, err)
	report, err := repair.Run(t.Context(), r, l.options(t))
	require.NoError(t, err)
	require.Len(t, report.Found.Findings, 1)
	require.Len(t, report.Left, 1)
	require.Equal(t, report.Found.Findings[0], report.Left[0].Finding)
}

// unlisted lists no archive.
type unlisted struct{ *objstoretest.Memory }

func (u unlisted) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	if prefix == format.ArchivePrefix {
		return nil, nil
	}
	return u.Memory.List(ctx, prefix)
}

// refusing stores no pack.
type refusing struct{ *objstoretest.Memory }

func (r refusing) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if strings.HasPrefix(key, format.PackPrefix) {
		return "", failure.New(failure.Denied, "create object", key, "refused")
	}
	return r.Memory.Create(ctx, key, body)
}

// A map is made again also if one of its blocks is lost, which is listed.
func TestRun_LostMapAndPack_TheRestIsRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.archive(t, "a", "", 1, 2, 3)
	l.loseMap(t, "a")
	l.flip(t, a[1].Pack.Name.Path(), int(a[1].Block.Offset))
	report := l.repair(t, l.options(t))
	require.Len(t, report.Repaired, 1)
	require.Equal(t, []verify.Range{{First: 0, Last: 0}, {First: 2, Last: 2}}, report.Repaired[0].Blocks)
	require.Len(t, report.Left, 1)
	require.Contains(t, report.Left[0].Problem, "its pack is damaged, too")
	o := l.options(t)
	o.Outside = image("disk", 1, 2, 3)
	require.Empty(t, l.repair(t, o).Left)
	l.isWhole(t, "a", 1, 2, 3)
}

// What a sample finds to be lost is repaired wherever an archive has it, also where the sample missed it: in archives in
// which it found other damage, and at another place of the same volume.
func TestRun_SampleHitsSomeOfTheLostBlocks_NoneOfThemIsLeftAnywhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	numbers := map[string][]int{"a": {1, 2, 3, 1, 4}, "b": {1, 2, 3, 1, 5}, "c": {1, 2, 3, 1, 6}}
	lost := l.archive(t, "a", "", numbers["a"]...)[:3]
	require.Equal(t, lost[0], l.segment(t, "a")[3])
	for _, id := range []string{"b", "c"} {
		l.archive(t, id, "a", numbers[id]...)
	}
	for _, at := range lost {
		l.flip(t, at.Pack.Name.Path(), int(at.Block.Offset))
	}
	o := l.options(t)
	o.Sample, o.Outside = .5, image("disk", numbers["a"]...)
	report, err := repair.Run(t.Context(), l.Repository, o)
	require.NoError(t, err)
	require.Empty(t, report.Left)
	hit := map[format.Place]bool{}
	for _, r := range report.Repaired {
		for _, blocks := range r.Blocks {
			for i := blocks.First; i <= blocks.Last; i++ {
				hit[lost[i%3]] = true
			}
		}
	}
	for id := range numbers {
		for _, at := range l.segment(t, id) {
			require.False(t, hit[at], "archive %s still has a place that is lost", id)
		}
	}
	o.Sample = 1
	_, err = repair.Run(t.Context(), l.Repository, o)
	require.NoError(t, err)
	for id, n := range numbers {
		l.isWhole(t, id, n...)
	}
}
