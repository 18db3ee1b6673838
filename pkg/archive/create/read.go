package create

import (
	"cmp"
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// chunks is how many times 16 blocks are read at the same time: as many as the rate of EBS needs at the usual latency.
// With two packers and their uploads the run's buffers are 150 MiB.
const chunks = 6

// read archives all volumes, one after the other, or has processes do so that share them.
func (r *run) read(ctx context.Context, s *phase.Scope) error {
	if r.opts.Shared {
		return r.share(ctx, s)
	}
	found, err := r.earlier.find(ctx, r.Repository)
	if err != nil {
		return err
	}
	if err := r.findFree(ctx, s); err != nil {
		return err
	}
	counted, err := r.count(ctx, false)
	if err != nil {
		return err
	}
	var sum volume.Stats
	for _, c := range counted {
		sum.Add(c)
	}
	s.Expect(sum.Read, "blocks")
	s.Advance(r.earlier.done())
	d := &durable{spent: calls(r.Blocks)}
	pack := repository.PackOptions{
		Source: source(r.choice.Archive, r.works), Names: format.NewPackNames(), Level: r.opts.Level,
		Packers: r.opts.Packers, Way: r.Repository.Way(), Stored: d.stored,
	}
	own := packs{Names: pack.Names, Pending: pack.Pending()}
	if err := s.Intent(ctx, journal.IntentPacks, own); err != nil {
		return err
	}
	kept, stop := r.using.keepLease(ctx, cmp.Or(r.opts.renewEvery, lease.RenewEvery))
	defer stop()
	ctx, cancel := context.WithCancel(kept)
	defer cancel()
	packing := r.Repository.Pack(ctx, pack)
	d.packing = packing
	err = r.readVolumes(ctx, s, packing, d, found)
	if err != nil {
		cancel() // what is uploading is read again, or found
	}
	if waited := packing.Wait(); err == nil {
		err = waited
	}
	r.archived.Spent = r.earlier.spent()
	r.archived.Spent.add(d.now())
	r.result.Spent = r.archived.Spent
	if cause := context.Cause(kept); err != nil && failure.Is(cause, failure.Conflict) {
		return cause // not that a context was cancelled
	}
	return err
}

// readVolumes archives the volumes and starts the upload of the last packs.
func (r *run) readVolumes(
	ctx context.Context, s *phase.Scope, packing *repository.Packing, d *durable, found places,
) error {
	archiver, err := volume.NewArchiver(r.Repository, packing, r.opts.Packers, chunks)
	if err != nil {
		return err
	}
	r.archived = archived{}
	for i := range r.works {
		start := time.Now()
		v, stats, err := r.readVolume(ctx, s, archiver, i, d, found)
		if err != nil {
			return failure.Annotate(err, "archive", r.works[i].slot().String())
		}
		w := &r.works[i]
		r.archived.Maps = append(r.archived.Maps, v)
		r.archived.Volumes = append(r.archived.Volumes, Volume{
			Store: w.Store, Role: w.Role, Snapshot: w.ID, SizeGiB: w.SizeGiB, Compared: w.compared, Stats: stats,
			FreeUnknown: w.freeUnknown(), Seconds: time.Since(start).Seconds(),
		})
		r.result.Volumes = r.archived.Volumes
	}
	return archiver.Flush()
}

// readVolume archives volume i.
func (r *run) readVolume(
	ctx context.Context, s *phase.Scope, archiver *volume.Archiver, i int, d *durable, found places,
) (v format.Volume, stats volume.Stats, err error) {
	w := &r.works[i]
	if w.compared == WithItself {
		return w.base, stats, nil
	}
	task, err := w.toArchive(ctx, r.Blocks, r.opts.SkipFree)
	if err != nil {
		return v, stats, err
	}
	task.Number = saturate.To[uint16](i) // a pack's source has room for fewer
	task.Segments, task.Packed = r.earlier.segments[i], found.in(i)
	task.Progress = func(more volume.Stats) { s.Advance(more.Read) }
	task.Wrote = func(name format.SegmentName, of volume.Stats) {
		d.wrote(func(from int, spent Spent) {
			s.Result(journal.ResultSegment, segment{Volume: i, Name: name, Stats: of, From: from, Spent: spent})
		})
	}
	v, stats, err = archiver.Archive(ctx, task)
	stats.Add(r.earlier.stats[i])
	v.Role, v.Source = string(w.Role), string(w.ID)
	return v, stats, err
}

// source describes the packs of an archive.
func source(archive string, works []work) format.Source {
	out := format.Source{Archive: archive}
	for i := range works {
		w := &works[i]
		out.Volumes = append(out.Volumes, format.SourceVolume{Store: uint64(w.Store), Role: string(w.Role)})
	}
	return out
}

// calls counts those of this process.
func calls(b Blocks) func() (lists, reads, throttled int64) {
	return func() (lists, reads, throttled int64) {
		stats := b.Stats()
		return stats.Lists, stats.Reads, stats.Throttled
	}
}
