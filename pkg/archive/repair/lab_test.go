package repair_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type lab struct {
	*repository.Repository
	store objstore.Store
	owner *age.X25519Identity
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{store: objstoretest.NewMemory(nil)}
	var err error
	l.Repository, l.owner, err = archivetest.New(t.Context(), l.store, format.MaxSealed)
	require.NoError(t, err)
	return l
}

// content is a block of which the number determines what is in it; 0 is zeros.
func content(number int) []byte {
	raw := make([]byte, codec.MaxBlock)
	if number > 0 {
		for i := 0; i < len(raw); i += 8 {
			binary.BigEndian.PutUint64(raw[i:], uint64(number)<<32|uint64(i/64))
		}
	}
	return raw
}

func contents(numbers ...int) []byte {
	var out []byte
	for _, n := range numbers {
		out = append(out, content(n)...)
	}
	return out
}

// archive commits an archive of one volume, each block of which is in a pack of its own, unless the base or the archive
// has it already.
func (l *lab) archive(t *testing.T, id, base string, numbers ...int) format.Segment {
	t.Helper()
	s := make(format.Segment, len(numbers))
	var from format.Segment
	if base != "" {
		from = l.segment(t, base)
	}
	packing := l.Pack(t.Context(), repository.PackOptions{
		Source: format.Source{Archive: id, Volumes: []format.SourceVolume{{Store: 4, Role: "data"}}},
		Names:  format.NewPackNames(), Level: codec.Auto, Packers: 1, Way: repository.Way{Uploads: 1},
	})
	packer, err := packing.Packer()
	require.NoError(t, err)
	done := map[int]format.Place{}
	for i, n := range numbers {
		raw := content(n)
		digest := format.Digest(sha256.Sum256(raw))
		switch {
		case n == 0:
			s[i].State = format.Zero
		case i < len(from) && from[i].State == format.Saved && from[i].Block.Digest == digest:
			s[i] = from[i]
		case done[n].State == format.Saved:
			s[i] = done[n]
		default:
			s[i], err = packer.Add(format.Origin{Index: uint32(i)}, digest, raw)
			require.NoError(t, err)
			require.NoError(t, packer.Flush())
			done[n] = s[i]
		}
	}
	require.NoError(t, packing.Wait())
	l.commit(t, id, base, s)
	return s
}

// commit commits an archive of one volume.
func (l *lab) commit(t *testing.T, id, base string, s format.Segment) {
	t.Helper()
	v := format.Volume{Role: "data", Source: "snap-" + id, Size: int64(len(s)) * codec.MaxBlock, Proofs: []format.Digest{s.Proof()}}
	v.Counts = v.Counts.Plus(s)
	sum := format.NewChecksum()
	for _, at := range s {
		if at.State == format.Saved {
			sum.Add(at.Block.Digest)
		}
	}
	v.Checksum = sum.Sum()
	name, err := l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	v.Segments = []format.SegmentName{name}
	require.NoError(t, l.Commit(t.Context(), id, &format.Archive{
		Backup: id, Cluster: "tidb/prod", Base: base, Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 4, Volumes: []format.Volume{v}}},
	}))
}

func (l *lab) volume(t *testing.T, id string) format.Volume {
	t.Helper()
	a, err := l.Archive(t.Context(), id)
	require.NoError(t, err)
	return a.Stores[0].Volumes[0]
}

func (l *lab) segment(t *testing.T, id string) format.Segment {
	t.Helper()
	s, err := l.Segment(t.Context(), l.volume(t, id).Segments[0])
	require.NoError(t, err)
	return s
}

// lose deletes the packs of blocks.
func (l *lab) lose(t *testing.T, places ...format.Place) {
	t.Helper()
	for _, at := range places {
		require.NoError(t, l.store.Delete(t.Context(), at.Pack.Name.Path()))
	}
}

// loseMap deletes an archive's map.
func (l *lab) loseMap(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, l.store.Delete(t.Context(), l.volume(t, id).Segments[0].Path()))
}

// flip changes the byte of an object at an offset, from its end if that is negative.
func (l *lab) flip(t *testing.T, key string, at int) {
	t.Helper()
	object, version, err := l.store.Get(t.Context(), key)
	require.NoError(t, err)
	if at < 0 {
		at += len(object)
	}
	object[at] ^= 1
	_, err = l.store.Replace(t.Context(), key, object, version)
	require.NoError(t, err)
}

func (l *lab) options(t *testing.T) repair.Options {
	t.Helper()
	ids, err := l.Archives(t.Context())
	require.NoError(t, err)
	return repair.Options{Options: verify.Options{Archives: ids, Level: verify.Data, Sample: 1, Reads: 2}, Owner: "repair"}
}

// keys are those of all objects but archives, which alone may be replaced.
func (l *lab) keys(t *testing.T) map[string]string {
	t.Helper()
	all, err := l.store.List(t.Context(), "")
	require.NoError(t, err)
	out := map[string]string{}
	for _, o := range all {
		out[o.Key] = string(o.Version)
	}
	return out
}

// repair repairs: nothing is deleted, or replaced but archives. A dry run before reports the same, and changes nothing.
func (l *lab) repair(t *testing.T, o repair.Options) *repair.Report {
	t.Helper()
	before := l.keys(t)
	o.DryRun = true
	dry, err := repair.Run(t.Context(), l.Repository, o)
	require.NoError(t, err)
	require.Equal(t, before, l.keys(t))
	o.DryRun = false
	report, err := repair.Run(t.Context(), l.Repository, o)
	require.NoError(t, err)
	after := l.keys(t)
	for key, version := range before {
		if len(key) < 9 || key[:9] != format.ArchivePrefix {
			require.Equal(t, version, after[key], key)
		}
	}
	require.Equal(t, dry.Repaired, report.Repaired)
	require.Equal(t, dry.Left, report.Left)
	require.Equal(t, dry.Blocks, report.Blocks)
	leases, err := l.store.List(t.Context(), format.LeasePrefix)
	require.NoError(t, err)
	require.Empty(t, leases)
	return report
}

// isWhole makes sure that nothing of an archive is damaged, and that it is what was archived.
func (l *lab) isWhole(t *testing.T, id string, numbers ...int) {
	t.Helper()
	o := l.options(t)
	o.Archives = []string{id}
	result, err := verify.Run(t.Context(), l.Repository, o.Options)
	require.NoError(t, err)
	require.Empty(t, result.Findings)
	var out bytes.Buffer
	require.NoError(t, volume.Stream(t.Context(), l.Repository, l.volume(t, id), &out, 1))
	require.True(t, bytes.Equal(contents(numbers...), out.Bytes()))
}

// image is what may have a volume's blocks.
func image(name string, numbers ...int) func(context.Context, *format.Archive, uint64, format.Volume) []repair.Origin {
	data := contents(numbers...)
	return func(context.Context, *format.Archive, uint64, format.Volume) []repair.Origin {
		return []repair.Origin{{Name: name, Source: &volume.Image{Bytes: int64(len(data)), From: bytes.NewReader(data)}}}
	}
}
