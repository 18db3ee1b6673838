package repository

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PackOptions are how a run writes its packs.
type PackOptions struct {
	Source format.Source
	// Names of the packs, which no other run has used; FindPacks finds the packs by them.
	Names format.PackNames
	Level codec.Level
	// Packers is how many packs are filled at the same time.
	Packers int
	Way     Way
	// Stored, if set, is called after each upload, concurrently: all packs before number below are stored.
	Stored func(below int, size int64)
}

// Pending is the most packs that may be begun and not stored.
func (o *PackOptions) Pending() int { return o.Packers + o.Way.Uploads }

// Packing writes a run's packs: packers fill them, and full ones are uploaded in the background. Its memory is one pack
// for each packer and each upload, allocated as they are needed and used again.
type Packing struct {
	PackOptions
	repository *Repository

	free    chan *buffer
	uploads *errgroup.Group
	ctx     context.Context //nolint:containedctx // ends with the first upload that fails, which every packer notices

	mu    sync.Mutex
	begun int
	below int          // all packs before it are stored
	early map[int]bool // stored ones behind it

	noting  sync.Mutex // one note at a time
	waiting []waiting  // in the order in which they came
}

// waiting is a note, and how many packs must be stored before.
type waiting struct {
	begun int
	note  func()
}

// Pack starts packing blocks of a source. The caller must call Wait.
func (r *Repository) Pack(ctx context.Context, o PackOptions) *Packing {
	p := &Packing{PackOptions: o, repository: r, early: map[int]bool{}}
	p.Way.Size = min(cmp.Or(o.Way.Size, r.settings.PackSize), r.settings.PackSize)
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	p.free = make(chan *buffer, o.Pending())
	for range cap(p.free) {
		p.free <- &buffer{}
	}
	return p
}

// Begun is how many packs were begun. What is packed from now on is in none of those before below.
func (p *Packing) Begun() (begun, below int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, p.below
}

// WhenStored calls note, now or later, once all packs that were begun so far are stored: one note at a time, in the
// order of the calls. What is packed from now on is in no pack before number from.
func (p *Packing) WhenStored(note func(from int)) {
	begun, below := p.Begun()
	p.noting.Lock()
	defer p.noting.Unlock()
	p.waiting = append(p.waiting, waiting{begun, func() { note(below) }})
	p.noteStored(below)
}

// noteStored calls the notes that wait for no pack. p.noting is held.
func (p *Packing) noteStored(below int) {
	for len(p.waiting) > 0 && p.waiting[0].begun <= below {
		p.waiting[0].note()
		p.waiting = p.waiting[1:]
	}
}

// next numbers a pack.
func (p *Packing) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return p.begun - 1
}

// done notes that a pack is stored.
func (p *Packing) done(number int) (below int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.early[number] = true
	for p.early[p.below] {
		delete(p.early, p.below)
		p.below++
	}
	return p.below
}

// Wait returns when no upload is under way, with the first error. All packers must be flushed or abandoned before.
func (p *Packing) Wait() error { return p.uploads.Wait() }

// upload writes a closed pack in the background, and frees its buffer.
func (p *Packing) upload(number int, pack *buffer) {
	p.uploads.Go(func() error {
		defer func() { p.free <- pack }()
		if err := p.repository.PutPack(p.ctx, p.Names.At(number), pack.data); err != nil {
			return err
		}
		below := p.done(number)
		if p.Stored != nil {
			p.Stored(below, int64(len(pack.data)))
		}
		p.noting.Lock()
		defer p.noting.Unlock()
		p.noteStored(below)
		return nil
	})
}

// Packer compresses blocks and fills packs with them, one pack after the other. It is for one goroutine. Blocks that
// are added in the order of their volume are read back in few requests.
type Packer struct {
	packing *Packing
	encoder *codec.Encoder
	number  int     // of the current pack
	pack    *buffer // nil between two packs
	writer  *format.PackWriter
}

// Packer returns a new packer; at most Packers may be in use.
func (p *Packing) Packer() (*Packer, error) {
	encoder, err := codec.NewEncoder(p.Level)
	return &Packer{packing: p, encoder: encoder}, err
}

// Add puts a block, whose SHA-256 is digest, into the current pack, and returns its place, which is good once Flush and
// Wait have succeeded. It waits while all buffers are being uploaded. After an error the packer is of no use.
func (p *Packer) Add(from format.Origin, digest format.Digest, raw []byte) (format.Place, error) {
	id, packed := p.encoder.Encode(raw)
	return p.AddPacked(from, digest, len(raw), id, packed)
}

// AddPacked is Add of a block of raw bytes that is compressed already.
func (p *Packer) AddPacked(
	from format.Origin, digest format.Digest, raw int, id codec.ID, packed []byte,
) (format.Place, error) {
	if p.writer == nil {
		if err := p.begin(); err != nil {
			return format.Place{}, err
		}
	}
	block, err := p.writer.Add(from, digest, raw, id, packed)
	if err != nil {
		return format.Place{}, err
	}
	place := format.Place{State: format.Saved, Pack: p.writer.Ref(), Block: block}
	if p.writer.Full() || p.writer.Size() >= p.packing.Way.Size {
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
	p.packing.upload(p.number, p.pack)
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
	p.pack.reset(int(p.packing.Way.Size) + format.MaxSealed)
	p.number = p.packing.next()
	p.writer, err = format.NewPackWriter(p.pack, p.packing.repository.keys, p.packing.Source,
		p.packing.Names.At(p.number))
	return err
}
