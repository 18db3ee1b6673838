package prune

import (
	"context"
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// segmentReads are read at the same time: each takes up to 15 MiB of memory.
	segmentReads = 2
	// packParts is into how many parts a pack is divided, to estimate how much of it is in use.
	packParts = 64
)

// marker collects what the repository's archives refer to. What it has found once stays, so that it reads each archive
// and segment once: an archive that is forgotten meanwhile keeps what it refers to until the next prune.
type marker struct {
	repository *repository.Repository
	archives   map[string]bool

	mu       sync.Mutex
	segments map[format.SegmentName]bool
	// packs has which parts of a pack are in use, by the beginning of its name. A name that begins the same is in use,
	// too.
	packs map[uint64]uint64
}

func newMarker(r *repository.Repository) *marker {
	return &marker{
		repository: r, archives: map[string]bool{}, segments: map[format.SegmentName]bool{},
		packs: map[uint64]uint64{},
	}
}

// mark reads the archives that are there and were not read yet. One that cannot be read is an error: nothing may be
// deleted then.
func (m *marker) mark(ctx context.Context) error {
	ids, err := m.repository.Archives(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if m.archives[id] {
			continue
		}
		switch there, err := m.archive(ctx, id); {
		case err != nil:
			return failure.Annotate(err, "find what is in use", id)
		case there:
			m.archives[id] = true
		}
	}
	return nil
}

// archive marks what one archive refers to. It is not there if it was forgotten meanwhile.
func (m *marker) archive(ctx context.Context, id string) (there bool, err error) {
	a, err := m.repository.Archive(ctx, id)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return false, nil
	}
	if err != nil {
		return false, doubt(err, id)
	}
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
	err = parallel.Each(ctx, segmentReads, fresh, func(ctx context.Context, _ int, name format.SegmentName) error {
		return m.segment(ctx, name)
	})
	if err == nil {
		return true, nil
	}
	if _, gone := m.repository.Archive(ctx, id); failure.Is(gone, failure.NotFound) && failure.HintOf(gone) == "" {
		for _, name := range fresh { // another archive may have them, and they are not all marked
			delete(m.segments, name)
		}
		return false, nil
	}
	return false, doubt(err, id)
}

func doubt(err error, id string) error {
	if !failure.Is(err, failure.Corrupt) && !failure.Is(err, failure.NotFound) {
		return err
	}
	return failure.New(failure.KindOf(err), "", "", "what it refers to cannot be read, so nothing is deleted: %w", err).
		WithHint("find the damage by `tisnap archive verify --level objects`; `tisnap archive forget %s` gives the "+
			"archive up", id)
}

func (m *marker) segment(ctx context.Context, name format.SegmentName) error {
	s, err := m.repository.Segment(ctx, name)
	if err != nil {
		return err
	}
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
	return nil
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
	used := int64(bits.OnesCount64(m.packs[short(name)])) * m.part()
	return max(0, size-used)
}
