package snapshot

import (
	"context"
	"iter"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
)

// Source is a snapshot, or its difference from an earlier one of the same volume.
type Source struct {
	ebs      ebsdirect.Source
	id, base cluster.SnapshotID
	size     int64
}

// Open returns a completed snapshot as a source. With a base, which must exist, it is the difference from it: the map
// that it is archived against has to be the base's.
func Open(ctx context.Context, e ebsdirect.Source, id, base cluster.SnapshotID) (*Source, error) {
	gib, err := e.SizeGiB(ctx, id)
	return &Source{ebs: e, id: id, base: base, size: gib << 30}, err
}

// Size implements volume.Source.
func (s *Source) Size() int64 { return s.size }

// Whole is all of the snapshot, also if the source is a difference.
func (s *Source) Whole() *Source { return &Source{ebs: s.ebs, id: s.id, size: s.size} }

// Blocks implements volume.Source.
func (s *Source) Blocks(ctx context.Context, from, to int64) iter.Seq2[volume.Block, error] {
	listed := s.ebs.Blocks(ctx, s.id, from)
	if s.base != "" {
		listed = s.ebs.Changed(ctx, s.base, s.id, from)
	}
	return func(yield func(volume.Block, error) bool) {
		for b, err := range listed {
			if err != nil {
				yield(nil, err)
				return
			}
			if b.Index >= to || !yield(block{s.ebs, b}, nil) {
				return
			}
		}
	}
}

// block is a block of a snapshot.
type block struct {
	ebs ebsdirect.Source
	at  ebsdirect.Block
}

func (b block) Index() int64 { return b.at.Index }

func (b block) Absent() bool { return b.at.Absent() }

func (b block) Read(ctx context.Context, into []byte) (format.Digest, error) {
	sum, err := b.ebs.Read(ctx, b.at, into)
	return format.Digest(sum), err
}
