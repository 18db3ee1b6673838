package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	// chunks is how many times 16 blocks are read at the same time. With those that are read ahead of standard input,
	// two packers and their uploads the buffers are those of an archive of snapshots.
	chunks  = 4
	packers = 2
)

// read archives all volumes, one after the other.
func (r *run) read(ctx context.Context, s *phase.Scope) error {
	found, err := r.earlier.find(ctx, r.Repository, len(r.works))
	if err != nil {
		return err
	}
	for i := range r.works {
		if w := &r.works[i]; w.Path == Stdin {
			pipe := volume.NewPipe(r.pace.reader(ctx, r.input()))
			defer pipe.Close()
			w.source = pipe
		}
	}
	r.expect(s)
	var packs, bytes atomic.Int64
	pack := repository.PackOptions{
		Source: r.packSource(), Names: format.NewPackNames(), Level: r.opts.Level, Packers: packers,
		Way: r.Repository.Way(), Stored: func(_ int, size int64) {
			packs.Add(1)
			bytes.Add(size)
		},
	}
	own := process{Names: pack.Names, Pending: pack.Pending()}
	for i := range r.works {
		own.States = append(own.States, r.works[i].state())
	}
	if err := r.shared.Record(ctx, processName(len(r.earlier.processes)), own); err != nil {
		return err
	}
	kept, stop := r.lease.Keep(ctx, cmp.Or(r.opts.renewEvery, lease.RenewEvery))
	defer stop()
	ctx, cancel := context.WithCancel(kept)
	defer cancel()
	packing := r.Repository.Pack(ctx, pack)
	if err = r.readVolumes(ctx, s, packing, found); err != nil {
		cancel() // what is uploading is read again, or found
	}
	if waited := packing.Wait(); err == nil {
		err = waited
	}
	r.result.Packs, r.result.StoredBytes = packs.Load(), bytes.Load()
	if cause := context.Cause(kept); err != nil && failure.Is(cause, failure.Conflict) {
		return cause // not that a context was cancelled
	}
	if err != nil {
		return err
	}
	return r.unchanged()
}

// unchanged refuses files and devices that were changed while they were read.
func (r *run) unchanged() error {
	var errs []error
	for i := range r.works {
		if file := r.works[i].file; file != nil {
			errs = append(errs, file.Check())
		}
	}
	return errors.Join(errs...)
}

// expect announces how much is read, unless it is unknown.
func (r *run) expect(s *phase.Scope) {
	var total int64
	for i := range r.works {
		size := r.works[i].source.Size()
		if r.works[i].file == nil {
			if size = r.opts.StdinSize; size == 0 {
				total = 0
				break
			}
		}
		total += format.Blocks(size) * volume.BlockSize
	}
	s.Expect(total, "bytes")
}

// packSource describes the packs.
func (r *run) packSource() format.Source {
	out := format.Source{Archive: r.result.Archive}
	for _, from := range r.opts.Sources {
		out.Volumes = append(out.Volumes, format.SourceVolume{Store: uint64(from.Store), Role: string(from.Role)})
	}
	return out
}

// state is what shows that the source was not changed; "" if nothing does.
func (w *work) state() string {
	if w.file == nil {
		return ""
	}
	return w.file.State()
}

// readVolumes archives the volumes and starts the upload of the last packs.
func (r *run) readVolumes(
	ctx context.Context, s *phase.Scope, packing *repository.Packing, found places,
) error {
	archiver, err := volume.NewArchiver(r.Repository, packing, packers, chunks)
	if err != nil {
		return err
	}
	r.made, r.result.Volumes = nil, nil
	for i := range r.works {
		w := &r.works[i]
		start := time.Now()
		v, stats, err := r.readVolume(ctx, s, archiver, packing, i, found)
		if err != nil {
			return failure.Annotate(err, "archive", fmt.Sprintf("%s of %s", w.Path, w.Source))
		}
		about := w.about()
		about.Stats, about.Seconds = stats, time.Since(start).Seconds()
		r.made, r.result.Volumes = append(r.made, v), append(r.result.Volumes, about)
	}
	return archiver.Flush()
}

// readVolume archives volume i.
func (r *run) readVolume(
	ctx context.Context, s *phase.Scope, archiver *volume.Archiver, packing *repository.Packing, i int, found places,
) (v format.Volume, stats volume.Stats, err error) {
	w := &r.works[i]
	task := r.taskOf(w)
	task.Number = saturate.To[uint16](i)
	var before volume.Stats
	if len(r.earlier.processes) > 0 {
		task.Segments, before = r.earlier.done(i)
		task.Packed, task.Reread = found.in(i), !r.earlier.unchanged(i, w.state())
	}
	if task.Reread {
		before = volume.Stats{}
	}
	s.Advance((before.Read + before.Free) * volume.BlockSize)
	if w.file != nil {
		w.file.From = r.pace.readerAt(ctx, w.file.From)
	}
	task.Progress = func(more volume.Stats) { s.Advance((more.Read + more.Free) * volume.BlockSize) }
	k := 0
	if !task.Reread {
		k = len(task.Segments)
	}
	task.Wrote = func(name format.SegmentName, of volume.Stats) {
		one := segment{Process: len(r.earlier.processes), Volume: i, Index: k, Name: name, Stats: of}
		k++
		packing.WhenStored(func(from int) {
			one.From = from
			if err := r.shared.Record(ctx, one.name(), one); err != nil && ctx.Err() == nil {
				s.Warn("if this command is killed, the next one reads more again: %v", err)
			}
		})
	}
	v, stats, err = archiver.Archive(ctx, task)
	stats.Add(before)
	v.Role, v.Source = string(w.Role), w.Path
	switch {
	case err != nil:
		return v, stats, err
	case v.Size == 0: // it was a file when it was opened
		err = failure.New(failure.Usage, "read", "", "it is empty")
	case w.file == nil && r.opts.StdinSize != 0 && v.Size != r.opts.StdinSize:
		err = failure.New(failure.Corrupt, "read", "", "it ended after %d bytes, not %d", v.Size, r.opts.StdinSize)
		if v.Size > r.opts.StdinSize {
			err = failure.New(failure.Corrupt, "read", "", "it has more than %d bytes", r.opts.StdinSize)
		}
	}
	return v, stats, err
}

// input is standard input, to the byte that shows that it is longer than it must be.
func (r *run) input() io.Reader {
	if r.opts.StdinSize == 0 {
		return r.Stdin
	}
	return io.LimitReader(r.Stdin, r.opts.StdinSize+1)
}
