package prune

import (
	"context"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// segmentReads are read at the same time: each takes up to 15 MiB of memory.
	segmentReads = 2
	// packParts is into how many parts a pack is divided, to estimate how much of it is in use.
	packParts = 63
	// chosen is the bit of a pack that is going to be rewritten.
	chosen = 1 << packParts
)

// marker collects what the repository's archives refer to. What it has found once stays, so that it reads each version
// of an archive, and each segment, once: an archive that is forgotten or replaced meanwhile keeps what it referred to
// until the next prune.
type marker struct {
	repository *repository.Repository
	archives   map[string]objstore.Version

	mu       sync.Mutex
	segments map[format.SegmentName]bool
	// packs has which parts of a pack are in use, by the beginning of its name. A name that begins the same is in use,
	// too.
	packs map[uint64]uint64
}

func newMarker(r *repository.Repository) *marker {
	return &marker{
		repository: r, archives: map[string]objstore.Version{}, segments: map[format.SegmentName]bool{},
		packs: map[uint64]uint64{},
	}
}

// mark reads the archives that are there and were not read yet, or were replaced since. One that cannot be read is an
// error: nothing may be deleted then.
func (m *marker) mark(ctx context.Context) error {
	versions, err := m.repository.Versions(ctx)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(versions)) {
		if read, is := m.archives[id]; is && read == versions[id] { // a storage may list no versions
			continue
		}
		version, err := m.archive(ctx, id)
		if err != nil {
			return failure.Annotate(err, "find what is in use", id)
		}
		if version != "" {
			m.archives[id] = version
		}
	}
	return nil
}

// archive marks what one archive refers to, and returns its version; "" if it was forgotten meanwhile.
func (m *marker) archive(ctx context.Context, id string) (objstore.Version, error) {
	for {
		a, version, err := m.repository.ArchiveVersion(ctx, id)
		if replace.Gone(err) {
			return "", nil
		}
		if err == nil {
			err = m.maps(ctx, a)
		}
		if err == nil {
			return version, nil
		}
		// Of an archive that was forgotten or replaced meanwhile, others may have deleted what it referred to.
		if _, now, _ := m.repository.ArchiveVersion(ctx, id); now == version {
			return "", doubt(err, id)
		}
	}
}

// maps marks what an archive's maps refer to.
func (m *marker) maps(ctx context.Context, a *format.Archive) error {
	var fresh []format.SegmentName
	for _, s := range a.Stores {
		for _, v := range s.Volumes {
			for _, name := range v.Segments {
				if !m.segments[name] {
					m.segments[name] = true
					fresh = append(fresh, name)
				}
			}
		}
	}
	err := parallel.Each(ctx, segmentReads, fresh, func(ctx context.Context, _ int, name format.SegmentName) error {
		return m.segment(ctx, name)
	})
	if err != nil {
		for _, name := range fresh { // another archive may have them, and they are not all marked
			delete(m.segments, name)
		}
	}
	return err
}

func doubt(err error, id string) error {
	if !failure.Is(err, failure.Corrupt) && !replace.Gone(err) {
		return err
	}
	return failure.New(failure.Corrupt, "", "", "what it refers to cannot be read, so nothing is deleted: %w", err).
		WithHint("repair the damage by `tisnap archive repair`; `tisnap archive forget %s` gives the archive up", id)
}

func (m *marker) segment(ctx context.Context, name format.SegmentName) error {
	s, err := m.repository.Segment(ctx, name)
	if err != nil {
		return err
	}
	m.places(s)
	return nil
}

// written marks what a segment that this prune has read or written refers to: it need not be read again.
func (m *marker) written(name format.SegmentName, s format.Segment) {
	m.places(s)
	m.segments[name] = true
}

func (m *marker) places(s format.Segment) {
	part := m.part()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range s {
		if s[i].State != format.Saved {
			continue
		}
		b := s[i].Block
		first, last := int64(b.Offset)/part, (int64(b.Offset)+int64(b.Length)-1)/part
		var used uint64
		for at := min(first, packParts-1); at <= min(last, packParts-1); at++ {
			used |= 1 << at
		}
		m.packs[short(s[i].Pack.Name)] |= used
	}
}

// part is how many bytes of a pack a bit stands for.
func (m *marker) part() int64 {
	return (m.repository.Settings().PackSize + format.MaxSealed + packParts - 1) / packParts
}

func short(p format.PackName) uint64 { return binary.BigEndian.Uint64(p[:]) }

// refers reports whether an archive refers to a pack or segment. A key of anything else counts as in use.
func (m *marker) refers(key string) bool {
	if name, err := format.ParsePackPath(key); err == nil {
		_, used := m.packs[short(name)]
		return used
	}
	name, err := format.ParseSegmentPath(key)
	return err != nil || m.segments[name]
}

// unused is about how many bytes of a pack that is in use are not.
func (m *marker) unused(name format.PackName, size int64) int64 {
	used := int64(bits.OnesCount64(m.packs[short(name)]&^chosen)) * m.part()
	return max(0, size-used)
}
