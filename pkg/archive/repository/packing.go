package repository

import (
	"bytes"
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Packing writes a run's packs: packers fill them, and full ones are uploaded in the background. Its memory is one pack
// for each packer and each upload, allocated as they are needed and used again.
type Packing struct {
	repository *Repository
	source     format.Source
	level      codec.Level
	stored     func(context.Context, format.PackRef, int64) error

	free    chan *bytes.Buffer
	uploads *errgroup.Group
	ctx     context.Context //nolint:containedctx // ends with the first upload that fails, which every packer notices
}

// Pack starts packing blocks of a source, by so many packers and with so many uploads at the same time. stored is
// called after each upload, concurrently, with the pack and its size in bytes; its error ends the run as one of the
// upload does. The caller must call Wait.
func (r *Repository) Pack(
	ctx context.Context, source format.Source, level codec.Level, packers, uploads int,
	stored func(context.Context, format.PackRef, int64) error,
) *Packing {
	p := &Packing{repository: r, source: source, level: level, stored: stored}
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	p.free = make(chan *bytes.Buffer, packers+uploads)
	for range cap(p.free) {
		p.free <- &bytes.Buffer{}
	}
	return p
}

// Wait returns when no upload is under way, with the first error. All packers must be flushed or abandoned before.
func (p *Packing) Wait() error { return p.uploads.Wait() }

// upload writes a closed pack in the background, and frees its buffer.
func (p *Packing) upload(ref format.PackRef, pack *bytes.Buffer) {
	p.uploads.Go(func() error {
		defer func() { p.free <- pack }()
		if err := p.repository.PutPack(p.ctx, ref.Name, pack.Bytes()); err != nil {
			return err
		}
		return p.stored(p.ctx, ref, int64(pack.Len()))
	})
}

// Packer compresses blocks and fills packs with them, one pack after the other. It is for one goroutine. Blocks that
// are added in the order of their volume are read back in few requests.
type Packer struct {
	packing *Packing
	encoder *codec.Encoder
	pack    *bytes.Buffer // nil between two packs
	writer  *format.PackWriter
}

// Packer returns a new packer; at most as many as Pack was called for may be in use.
func (p *Packing) Packer() (*Packer, error) {
	encoder, err := codec.NewEncoder(p.level)
	return &Packer{packing: p, encoder: encoder}, err
}

// Add puts a block, whose SHA-256 is digest, into the current pack, and returns its place, which is good once Flush and
// Wait have succeeded. It waits while all buffers are being uploaded. After an error the packer is of no use.
func (p *Packer) Add(from format.Origin, digest format.Digest, raw []byte) (format.Place, error) {
	if p.writer == nil {
		if err := p.begin(); err != nil {
			return format.Place{}, err
		}
	}
	id, packed := p.encoder.Encode(raw)
	block, err := p.writer.Add(from, digest, len(raw), id, packed)
	if err != nil {
		return format.Place{}, err
	}
	place := format.Place{State: format.Saved, Pack: p.writer.Ref(), Block: block}
	if p.writer.Full() || p.writer.Size() >= p.packing.repository.settings.PackSize {
		err = p.Flush()
	}
	return place, err
}

// Flush closes the current pack, if it has a block, and starts its upload.
func (p *Packer) Flush() error {
	if p.writer == nil {
		return nil
	}
	if err := p.writer.Close(); err != nil {
		return err
	}
	p.packing.upload(p.writer.Ref(), p.pack)
	p.pack, p.writer = nil, nil
	return nil
}

// begin starts a pack in a free buffer.
func (p *Packer) begin() (err error) {
	select {
	case p.pack = <-p.packing.free:
	case <-p.packing.ctx.Done():
		return failure.Annotate(context.Cause(p.packing.ctx), "write pack", "")
	}
	p.pack.Reset()
	p.pack.Grow(int(p.packing.repository.settings.PackSize) + format.MaxSealed)
	p.writer, err = format.NewPackWriter(p.pack, p.packing.repository.keys, p.packing.source)
	return err
}
