package bench

import (
	"context"
	"iter"

	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// stretch is how many neighbouring blocks are asked for at a time: a chunk, as the EBS direct APIs number them.
const stretch = 16

// Sample is blocks of a source, from places that are evenly spread over it.
type Sample struct {
	Blocks [][]byte // without those that are zeros, which an archive does not store

	asked, size int64
}

// Take reads up to about so many bytes of a source into memory: all of a source that is smaller.
func Take(ctx context.Context, src volume.Source, bytes int64) (*Sample, error) {
	blocks := (src.Size() + volume.BlockSize - 1) / volume.BlockSize
	s := &Sample{size: src.Size()}
	all := (blocks + stretch - 1) / stretch
	some := min((bytes/volume.BlockSize+stretch-1)/stretch, all)
	for n := range some {
		from := n * all / some * stretch
		if err := s.add(ctx, src.Blocks(ctx, from, min(from+stretch, blocks))); err != nil {
			return nil, err
		}
		s.asked += min(stretch, blocks-from)
	}
	return s, nil
}

// add reads the listed blocks.
func (s *Sample) add(ctx context.Context, listed iter.Seq2[volume.Block, error]) error {
	for b, err := range listed {
		if err != nil {
			return err
		}
		raw := make([]byte, min(volume.BlockSize, s.size-b.Index()*volume.BlockSize))
		if _, err := b.Read(ctx, raw); err != nil {
			return err
		}
		if !volume.IsZero(raw) {
			s.Blocks = append(s.Blocks, raw)
		}
	}
	return nil
}

// Data is about how many bytes of the whole source are not zeros.
func (s *Sample) Data() int64 {
	if s.asked == 0 {
		return 0
	}
	return int64(float64(s.size) * float64(len(s.Blocks)) / float64(s.asked))
}
