package verify_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// commit commits an archive of a volume with other places, in a map of its own.
func (l *lab) commit(t *testing.T, id string, v format.Volume, s format.Segment) {
	t.Helper()
	v.Counts = format.Counts{}.Plus(s)
	sum := format.NewChecksum()
	for _, place := range s {
		if place.State == format.Saved {
			sum.Add(place.Block.Digest)
		}
	}
	v.Checksum = sum.Sum()
	name, err := l.PutSegment(t.Context(), s)
	require.NoError(t, err)
	v.Segments = []format.SegmentName{name}
	require.NoError(t, l.Commit(t.Context(), id, &format.Archive{
		Backup: id, Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	}))
}

// without commits an archive of a volume without one of its blocks: its map is another one, with the same places.
func (l *lab) without(t *testing.T, id string, v format.Volume, gone int) {
	t.Helper()
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	s[gone] = format.Place{}
	l.commit(t, id, v, s)
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

// An archive in which a sample hits one lost block has each other one, too, that was hit elsewhere: in other archives, or
// at another place of its own.
func TestRun_SeveralLostBlocksInASample_AreOfAllThatHaveThem(t *testing.T) {
	t.Parallel()
	l := &lab{store: objstoretest.NewMemory(nil)}
	var err error
	l.Repository, _, err = archivetest.New(t.Context(), l.store, 4*volume.BlockSize)
	require.NoError(t, err)
	v := l.archive(t, 1)
	s, err := l.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	for i := range 3 {
		key := s[i].Pack.Name.Path()
		pack := l.get(t, key)
		pack[s[i].Block.Offset+5] ^= 1
		l.put(t, key, pack)
	}
	places := map[string]format.Segment{}
	for i, id := range []string{"a", "b", "c", "twice"} {
		m := slices.Clone(s)
		if id == "twice" {
			copy(m[3:], s[:2])
		} else {
			m[3+i] = format.Place{}
		}
		l.commit(t, id, v, m)
		places[id] = m
	}

	for range 10 {
		result, err := verify.Run(t.Context(), l.Repository, verify.Options{
			Archives: slices.Sorted(maps.Keys(places)), Level: verify.Data, Sample: .5, Reads: 2,
		})
		require.NoError(t, err)
		found, lost := map[string][]int{}, map[format.Place]bool{}
		for _, f := range result.Findings {
			for _, r := range f.Blocks {
				for i := int(r.First); i <= int(r.Last); i++ {
					found[f.Archive] = append(found[f.Archive], i)
					lost[places[f.Archive][i]] = true
				}
			}
		}
		for id, s := range places {
			var want []int
			for i, at := range s {
				if lost[at] {
					want = append(want, i)
				}
			}
			require.ElementsMatch(t, want, found[id], id) // each once
			_, whole := result.Whole[id]
			require.Equal(t, len(want) == 0, whole, id)
		}
	}
}

// A map that is not one of its volume is found as that alone: the lost blocks in it have no place in the volume.
func TestRun_LostBlockInAMapOfAnotherLength_IsNotOfItsVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	v, s := l.volume(t)
	key := s[2].Pack.Name.Path()
	pack := l.get(t, key)
	pack[s[2].Block.Offset+5] ^= 1
	l.put(t, key, pack)
	v.Size, v.Counts.Saved = 2*volume.BlockSize, 2
	require.NoError(t, l.Commit(t.Context(), "short", &format.Archive{
		Backup: "short", Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	}))
	result, err := verify.Run(t.Context(), l.Repository, verify.Options{
		Archives: []string{"one", "short"}, Level: verify.Data, Sample: 1, Reads: 2,
	})
	require.NoError(t, err)
	found := map[string][]verify.Range{}
	for _, f := range result.Findings {
		found[f.Archive+" "+f.Object] = f.Blocks
	}
	require.Equal(t, map[string][]verify.Range{
		"one " + key: {{First: 2, Last: 2}}, "short " + v.Segments[0].Path(): {{First: 0, Last: 1}},
	}, found)
}
