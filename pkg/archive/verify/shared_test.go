package verify_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// without commits an archive of a volume without some of its blocks: its map is another one, with the same places.
func (l *lab) without(t *testing.T, id string, v format.Volume, gone ...int) {
	t.Helper()
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	sum := format.NewChecksum()
	for i, place := range s {
		if slices.Contains(gone, i) {
			s[i] = format.Place{}
			continue
		}
		sum.Add(place.Block.Digest)
	}
	v.Counts.Saved -= int64(len(gone))
	v.Checksum = sum.Sum()
	name, err := l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	v.Segments = []format.SegmentName{name}
	require.NoError(t, l.Commit(t.Context(), id, &format.Archive{
		Backup: id, Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	}))
}

// A block that is lost is of each archive that has it, also of those in whose maps a sample missed it.
func TestRun_LostBlockInASample_IsOfAllThatShareIt(t *testing.T) {
	t.Parallel()
	l := &lab{store: objstoretest.NewMemory(nil)}
	var err error
	l.Repository, _, err = archivetest.New(t.Context(), l.store, 4*volume.BlockSize)
	require.NoError(t, err)
	v := l.archive(t, 1)
	l.without(t, "other", v, 2)
	hit := []string{"part", "same-1", "same-2", "same-3", "same-4"}
	l.without(t, "part", v, 5)
	for _, id := range hit[1:] {
		require.NoError(t, l.Commit(t.Context(), id, &format.Archive{
			Backup: id, Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
		}))
	}
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	key := s[2].Pack.Name.Path()
	pack := l.get(t, key)
	pack[s[2].Block.Offset+5] ^= 1
	l.put(t, key, pack)

	all := append([]string{"other"}, hit...)
	times := 0
	for range 15 {
		result, err := verify.Run(t.Context(), l.Repository, verify.Options{
			Archives: all, Level: verify.Data, Sample: .5, Reads: 2,
		})
		require.NoError(t, err)
		if len(result.Findings) == 0 {
			require.Len(t, result.Whole, len(all))
			continue
		}
		times++
		var found []string
		for _, f := range result.Findings {
			require.Equal(t, key, f.Object)
			require.Equal(t, []verify.Range{{First: 2, Last: 2}}, f.Blocks, f.Archive)
			found = append(found, f.Archive)
		}
		require.ElementsMatch(t, hit, found)
		require.Len(t, result.Whole, 1)
		require.Contains(t, result.Whole, "other")
	}
	require.Positive(t, times)
}
