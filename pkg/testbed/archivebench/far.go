package archivebench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// FarConfig is what is measured of a storage that is far away.
type FarConfig struct {
	MiB      int // of the volume, which nothing compresses
	Progress func(string)
}

const (
	farWindow = 128 << 10 // of each connection: at 90 ms it carries 1.4 MiB/s
	farReset  = 100 << 20 // bytes of a connection, on average, until it is reset: 1 % of MiBs
	farReads  = 8         // ranges of packs at the same time, as the commands do it
)

// Far measures how much of the bandwidth an archive and its restore use, that their connections allow through a proxy with
// latency, and what they send again because of connections that are reset.
func Far(ctx context.Context, c FarConfig) (out []Figure, err error) {
	s3 := objstoretest.New(objstoretest.Config{})
	if err := s3.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s3.Close()) }()
	s3.CreateBucket(testbed.Bucket)
	to, err := url.Parse(s3.URL())
	if err != nil {
		return nil, err
	}
	for _, trip := range []time.Duration{45 * time.Millisecond, 90 * time.Millisecond} {
		for _, each := range []int64{0, farReset} {
			p := &path{to: to.Host, trip: trip, window: farWindow, each: each}
			found, err := c.through(ctx, p, fmt.Sprintf("%d-%d", trip, each))
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// through archives and restores a volume.
func (c FarConfig) through(ctx context.Context, p *path, prefix string) ([]Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.close()
	defer cancel()
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	store, err := objstore.Open(ctx, "s3://"+testbed.Bucket+"/"+prefix, objstore.Config{Region: testbed.Region, Endpoint: p.url()})
	if err != nil {
		return nil, err
	}
	r, _, err := archivetest.New(ctx, store, repository.DefaultPackSize)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d ms", p.trip.Milliseconds())
	if p.each > 0 {
		name += ", resets"
	}
	size, latency, way := int64(c.MiB)<<20, objstore.Latency(store), r.Way()
	upload := &steady{passed: p.up.Load, total: size}
	v, err := c.archive(ctx, r, way, upload)
	if err != nil {
		return nil, err
	}
	lost := p.resets.Load()
	again := p.up.Load() - size
	download := &steady{passed: p.down.Load, total: size}
	if err := download.of(func() error { return volume.Restore(ctx, r, v, nowhere{}, farReads) }); err != nil {
		return nil, err
	}
	how := fmt.Sprintf("measured %d ms, packs of %d MiB, %d uploads", latency.Milliseconds(), way.Size>>20, way.Uploads)
	allowed := func(connections int, bytes int64, trips float64) float64 { // beside those of the bytes
		return float64(connections) * float64(bytes) / (float64(bytes)/farWindow + trips) / p.trip.Seconds()
	}
	out := []Figure{
		{Name: name + ": archive, of what its connections allow", Value: upload.rate() / allowed(way.Uploads, way.Size, 2), AtLeast: 0.9, How: how},
		{Name: name + ": archive", Value: upload.rate() / 1e6, Unit: "MB/s"},
		{Name: name + ": restore, of what its connections allow", Value: download.rate() / allowed(farReads, way.Size, 1), AtLeast: 0.9},
		{Name: name + ": restore", Value: download.rate() / 1e6, Unit: "MB/s"},
	}
	if p.each > 0 {
		out = append(out, Figure{
			Name: name + ": sent again, times the packs that were broken", Value: float64(again) / float64(lost*way.Size), AtMost: 1,
			How: fmt.Sprintf("%d resets while archiving", lost),
		})
	}
	return out, nil
}

// archive archives random blocks.
func (c FarConfig) archive(ctx context.Context, r *repository.Repository, way repository.Way, s *steady) (v format.Volume, err error) {
	packing := r.Pack(ctx, repository.PackOptions{Names: format.NewPackNames(), Level: codec.None, Packers: packers, Way: way})
	archiver, err := volume.NewArchiver(r, packing, packers, chunks)
	if err != nil {
		return v, err
	}
	err = s.of(func() (err error) {
		v, _, err = archiver.Archive(ctx, volume.Task{Source: &volume.Image{Bytes: int64(c.MiB) << 20, From: randomAt{}}})
		return errors.Join(err, archiver.Flush(), packing.Wait())
	})
	c.Progress(fmt.Sprintf("archived at %.1f MB/s", s.rate()/1e6))
	return v, err
}

// nowhere is a target that keeps nothing.
type nowhere struct{}

func (nowhere) Write(context.Context, int64, []byte, format.Digest) error { return nil }

// steady measures a rate without the beginning and the end, in which not all connections are in use.
type steady struct {
	passed func() int64
	total  int64

	from, to   time.Time
	first, end int64
}

func (s *steady) rate() float64 { return float64(s.end-s.first) / s.to.Sub(s.from).Seconds() }

// of measures while do runs.
func (s *steady) of(do func() error) error {
	before, done := s.passed(), make(chan error, 1)
	go func() { done <- do() }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-ticker.C:
			switch passed := s.passed() - before; {
			case s.from.IsZero() && passed > s.total/5:
				s.from, s.first = now, passed
			case s.to.IsZero() && passed > s.total*7/10:
				s.to, s.end = now, passed
			}
		}
	}
}
