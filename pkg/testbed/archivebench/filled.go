package archivebench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// FilledConfig is what is measured of volumes that are filled.
type FilledConfig struct {
	MiB      int // of the volume, which nothing compresses
	Progress func(string)
}

const (
	filledTrip   = 45 * time.Millisecond
	filledWindow = 512 << 10 // of each connection, which carries 11.7 MB/s with it
)

// filledCase is how fast devices and their source are.
type filledCase struct {
	name    string
	devices int
	rate    float64 // bytes per second of each device; 0 is no limit
	far     bool    // the source is
}

var filledCases = []filledCase{
	{name: "a device of 125 MB/s", devices: 1, rate: 125e6},
	{name: "a device of 250 MB/s", devices: 1, rate: 250e6},
	{name: "two devices of 125 MB/s", devices: 2, rate: 125e6},
	{name: "a source far away", devices: 1, far: true},
	{name: "a source far away, two devices", devices: 2, far: true},
	{name: "a source far away, a device of 100 MB/s", devices: 1, rate: 100e6, far: true},
}

// Filled measures how fast volumes of an archive are filled, as the pods of a restore do it, from the first request to
// the last byte that is durable: a share of the rate of the devices, or of what the connections of a source allow that is
// far away, whichever is less.
func Filled(ctx context.Context, c FilledConfig) (out []Figure, err error) {
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
	open := func(endpoint string) (objstore.Store, error) {
		return objstore.Open(ctx, "s3://"+testbed.Bucket+"/filled", objstore.Config{Region: testbed.Region, Endpoint: endpoint})
	}
	store, err := open(s3.URL())
	if err != nil {
		return nil, err
	}
	near, owner, err := archivetest.New(ctx, store, repository.DefaultPackSize)
	if err != nil {
		return nil, err
	}
	archiving := FarConfig{MiB: c.MiB, Progress: func(string) {}}
	v, err := archiving.archive(ctx, near, near.Way(), &steady{passed: func() int64 { return 0 }})
	if err != nil {
		return nil, err
	}
	for _, one := range filledCases {
		r, done, err := near, func() {}, error(nil)
		if one.far {
			behind, cancel := context.WithCancel(ctx)
			p := &path{to: to.Host, trip: filledTrip, window: filledWindow}
			if err := p.open(behind); err != nil {
				cancel()
				return nil, err
			}
			done = func() { cancel(); p.close() }
			if store, err = open(p.url()); err == nil {
				r, err = repository.Open(ctx, store, owner)
			}
		}
		if err == nil {
			var f Figure
			f, err = c.fill(ctx, r, v, one)
			out = append(out, f)
		}
		done()
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fill fills the devices of a case at the same time, each with the volume.
func (c FilledConfig) fill(ctx context.Context, r *repository.Repository, v format.Volume, of filledCase) (Figure, error) {
	began, busy := time.Now(), processorSeconds()
	group, each := errgroup.WithContext(ctx)
	for range of.devices {
		group.Go(func() error {
			to := &device{ctx: each, rate: of.rate}
			filled, err := volume.Fill(each, r, v, to, farReads/of.devices, func(int64) {})
			if err == nil && (filled.Written != v.Size || to.written != v.Size) {
				err = fmt.Errorf("%d of %d bytes were written", to.written, v.Size)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Figure{}, err
	}
	rate := float64(of.devices) * float64(v.Size) / time.Since(began).Seconds()
	allowed := float64(of.devices) * of.rate
	if of.far {
		connections := farReads * repository.MaxRange / (float64(repository.MaxRange)/filledWindow + 1) / filledTrip.Seconds()
		if allowed == 0 || connections < allowed {
			allowed = connections
		}
	}
	c.Progress(fmt.Sprintf("%s: %.1f of %.1f MB/s, %.2f s of processors", of.name, rate/1e6, allowed/1e6, processorSeconds()-busy))
	return Figure{
		Name: of.name + ": filled, of the slower one's rate", Value: rate / allowed, AtLeast: 0.9,
		How: fmt.Sprintf("%.1f of %.1f MB/s", rate/1e6, allowed/1e6),
	}, nil
}

// device is one of zeros that takes so many bytes per second, and keeps none.
type device struct {
	ctx     context.Context
	rate    float64
	mu      sync.Mutex
	idle    time.Time // when it has done all that it was asked for
	written int64
}

// ReadAt implements io.ReaderAt.
func (d *device) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), d.take(len(p))
}

// WriteAt implements io.WriterAt.
func (d *device) WriteAt(p []byte, _ int64) (int, error) {
	d.mu.Lock()
	d.written += int64(len(p))
	d.mu.Unlock()
	return len(p), d.take(len(p))
}

// Sync implements volume.Device: what was written is durable.
func (d *device) Sync() error { return d.ctx.Err() }

// take waits for the device's turn and its time.
func (d *device) take(bytes int) error {
	if d.rate == 0 {
		return d.ctx.Err()
	}
	d.mu.Lock()
	if now := time.Now(); d.idle.Before(now) {
		d.idle = now
	}
	d.idle = d.idle.Add(time.Duration(float64(bytes) / d.rate * float64(time.Second)))
	until := d.idle
	d.mu.Unlock()
	return wait.For(d.ctx, time.Until(until))
}
