package replace

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
)

// Packs are new packs of blocks that archives have already: each is about one volume.
type Packs struct {
	*repository.Packer // of the current volume; nil before Begin and after Flush
	written            atomic.Int64
	repository         *repository.Repository
	level              codec.Level
	packing            *repository.Packing
}

// NewPacks returns none. Raw blocks are compressed by the level.
func NewPacks(r *repository.Repository, level codec.Level) *Packs {
	return &Packs{repository: r, level: level}
}

// Written is how many bytes of packs are stored.
func (p *Packs) Written() int64 { return p.written.Load() }

// Begin starts packs for blocks of a volume. Those of the one before are flushed.
func (p *Packs) Begin(ctx context.Context, store uint64, role string) (err error) {
	p.packing = p.repository.Pack(ctx, repository.PackOptions{
		Source: format.Source{Volumes: []format.SourceVolume{{Store: store, Role: role}}},
		Names:  format.NewPackNames(), Level: p.level, Packers: 1, Way: repository.Way{Uploads: 1},
		Stored: func(_ int, size int64) { p.written.Add(size) },
	})
	p.Packer, err = p.packing.Packer()
	return err
}

// Flush stores the packs that were begun.
func (p *Packs) Flush() error {
	if p.Packer == nil {
		return nil
	}
	err := p.Packer.Flush()
	p.Packer = nil
	return errors.Join(err, p.packing.Wait())
}

// Abandon waits for what is being stored. What was begun is not.
func (p *Packs) Abandon() {
	if p.Packer != nil {
		p.Packer = nil
		_ = p.packing.Wait() // another error is why
	}
}
