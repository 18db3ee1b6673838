package archivebench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// SharedConfig is what is measured of workers that share an archive.
type SharedConfig struct {
	Blocks   int     // of each unit of 32 GiB
	Rate     float64 // blocks per second that each worker may read, as by --limit-rate
	Progress func(string)
}

const (
	sharedWorkers = 8
	sharedRaised  = 1e6 // blocks per second, of the account and of each snapshot: no limit here
	segmentBytes  = format.SegmentBlocks * blockBytes
)

// sharedUnits are those of each volume: one is as large as all others together.
var sharedUnits = []int{12, 2, 6, 4}

// shared is an account with a backup, and an S3 that counts its requests.
type shared struct {
	SharedConfig
	s3      *objstoretest.Server
	front   *httptest.Server
	account *ebstest.Server
	direct  *ebsdirecttest.Server
	ec2     *ebs.Client
	backup  *manifest.Manifest

	mu       sync.Mutex
	requests map[string]int // by kind
	first    time.Time      // when the first block was asked for
	last     time.Time      // when the last one was there
	reads    int            // blocks so far
	enough   int            // blocks, after which stop is called, unless it is nil
	stop     context.CancelFunc
}

// Shared measures how fast one worker archives a backup, of which it does an eighth, and how fast eight do that share it,
// and what they ask for to share it. Each is limited to a rate at which two processors are enough for all: what is measured is how the work is
// divided, not the reading and compressing.
func Shared(ctx context.Context, c SharedConfig) (out []Figure, err error) {
	s := &shared{SharedConfig: c, s3: objstoretest.New(objstoretest.Config{})}
	s.s3.CreateBucket(testbed.Bucket)
	s.front = httptest.NewServer(s)
	defer s.front.Close()
	clock := timescale.New(1)
	s.account = ebstest.New(ebstest.Config{Clock: clock, Seed: 1, Rules: ebstest.QuickRules()})
	rules := ebsdirecttest.DefaultRules()
	rules.Account["GetSnapshotBlock"], rules.Snapshot["GetSnapshotBlock"] = sharedRaised, sharedRaised
	rules.Latency = ebstest.Span{Least: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	s.direct = ebsdirecttest.New(s.account, ebsdirecttest.Config{Clock: clock, Rules: rules})
	if err := s.account.Start(); err != nil {
		return nil, err
	}
	defer s.account.Close()
	if s.ec2, err = ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: s.account.URL()}); err != nil {
		return nil, err
	}
	defer s.ec2.Close()
	if err := s.fill(ctx, clock); err != nil {
		return nil, err
	}
	one, err := s.archive(ctx, 1, sum(sharedUnits)/sharedWorkers)
	if err != nil {
		return nil, err
	}
	all, err := s.archive(ctx, sharedWorkers, sum(sharedUnits))
	if err != nil {
		return nil, err
	}
	how := fmt.Sprintf("%d units of %d blocks in volumes of %v units, each worker limited to %g blocks/s",
		sum(sharedUnits), c.Blocks, sharedUnits, c.Rate)
	out = []Figure{
		{Name: "1 worker", Unit: "blocks/s", Value: one.rate, How: how + "; the first eighth of the units"},
		{Name: "8 workers", Unit: "blocks/s", Value: all.rate, How: "all units, from the first read to the last"},
		{Name: "8 workers, times one", Value: all.rate / one.rate, AtLeast: 7.2},
		{Name: "8 workers, units of the one that did most", Value: float64(all.most), AtMost: float64(sum(sharedUnits)/sharedWorkers + 1)},
		{Name: "8 workers, until the archive is committed", Unit: "s", Value: all.committed.Seconds()},
		{Name: "8 workers, requests for leases and claims", Unit: "%", Value: 100 * all.sharing(), AtMost: 1,
			How: "and for units' results and lists"},
	}
	for _, kind := range all.kinds() {
		out = append(out, Figure{Name: "8 workers, requests: " + kind, Value: float64(all.requests[kind])})
	}
	return out, nil
}

func sum(of []int) (n int) {
	for _, one := range of {
		n += one
	}
	return n
}

// fill makes the snapshots. Each block has 4 KiB that no other one has, so that little memory is enough.
func (s *shared) fill(ctx context.Context, clock timescale.Clock) error {
	s.backup = &manifest.Manifest{
		ID: "shared", Run: "made", Region: testbed.Region, BackupTS: cluster.MakeTS(stamp, 0), CreatedAt: stamp,
		Source: cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: "shared"}, ClusterID: 7, Version: "8.5.0"},
	}
	random, page := newRandom(4), make([]byte, 4<<10)
	for i, units := range sharedUnits {
		id, device := cluster.StoreID(i+1), disk.New(int64(units)*segmentBytes)
		for unit := range int64(units) {
			for block := range int64(s.Blocks) {
				_, _ = random.Read(page) // has no error
				binary.BigEndian.PutUint64(page, uint64(block))
				if _, err := device.WriteAt(page, unit*segmentBytes+block*blockBytes); err != nil {
					return err
				}
			}
		}
		spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: device.Size() >> 30}
		made, err := s.account.Writable(ebs.Snapshot{SizeGiB: spec.SizeGiB}, "", clock.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		s.account.Seal(made.ID, disk.Cut(device)[0])
		if err := completed(ctx, s.account, made.ID); err != nil {
			return err
		}
		v := cluster.Volume{ID: cluster.VolumeID(fmt.Sprintf("vol-%d", i)), Role: cluster.RoleData, Zone: zone, VolumeSpec: spec}
		s.backup.Source.Stores = append(s.backup.Source.Stores, cluster.Store{ID: id, Volumes: []cluster.Volume{v}})
		s.backup.Snapshots = append(s.backup.Snapshots, manifest.NewSnapshot(made.ID, id, v, stamp))
	}
	store, err := s.open(ctx, "backups")
	if err != nil {
		return err
	}
	return seal(ctx, store, s.backup, stamp)
}

func (s *shared) open(ctx context.Context, prefix string) (objstore.Store, error) {
	return objstore.Open(ctx, "s3://"+testbed.Bucket+"/"+prefix, objstore.Config{Region: testbed.Region, Endpoint: s.front.URL})
}

// ServeHTTP implements http.Handler: it counts.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.s3.ServeHTTP(w, r)
	kind := kindOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		return
	}
	s.requests[kind]++
}

// kindOf is the method of a request and what it is about.
func kindOf(r *http.Request) string {
	about := r.URL.Path + r.URL.Query().Get("prefix")
	for _, one := range [][2]string{
		{"/results/", "result"}, {"/claims/", "claim"}, {format.UnitPrefix, "units"}, {format.LeasePrefix, "lease"},
		{format.PackPrefix, "pack"}, {format.SegmentPrefix, "map"}, {"/backups", "storage"}, {"backups", "storage"},
	} {
		if strings.Contains(about, one[0]) {
			return r.Method + " " + one[1]
		}
	}
	return r.Method + " other"
}

// sharedRun is what so many workers did.
type sharedRun struct {
	rate      float64 // blocks per second
	most      int     // units of one worker
	committed time.Duration
	requests  map[string]int
}

func (r sharedRun) kinds() []string {
	var kinds []string
	for kind := range r.requests {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// sharing is the part of the requests that is there to share the work.
func (r sharedRun) sharing() float64 {
	part, all := 0, 0
	for kind, n := range r.requests {
		all += n
		switch _, about, _ := strings.Cut(kind, " "); about {
		case "lease", "claim", "result", "units":
			part += n
		}
	}
	return float64(part) / float64(all)
}

// archive archives so many units of the backup in a new repository by so many workers, which begin at once.
func (s *shared) archive(ctx context.Context, workers, units int) (run sharedRun, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	part := units < sum(sharedUnits)
	if !part {
		stop = nil
	}
	store, err := s.open(ctx, "backups")
	if err != nil {
		return run, err
	}
	prefix := fmt.Sprintf("archive-%d", workers)
	leader, err := s.open(ctx, prefix)
	if err != nil {
		return run, err
	}
	r, owner, err := archivetest.New(ctx, leader, repository.DefaultPackSize)
	if err != nil {
		return run, err
	}
	before := s.direct.Calls()
	s.count(map[string]int{}, units*s.Blocks, stop)
	began := time.Now()
	helpers := &joining{shared: s, workers: workers, units: make([]int, workers), open: func(ctx context.Context) (*repository.Repository, error) {
		objects, err := s.open(ctx, prefix) // with connections of its own
		if err != nil {
			return nil, err
		}
		return repository.Open(ctx, objects, owner)
	}}
	blocks, closeBlocks, err := s.reader(ctx)
	if err != nil {
		return run, err
	}
	defer closeBlocks()
	id := cluster.RunID(prefix)
	result, err := create.Run(ctx, create.Deps{
		Store: store, Repository: r, Blocks: blocks, EC2: s.ec2, Region: testbed.Region, Helpers: helpers,
	}, create.Options{
		Run: id, Owner: runlock.NewOwner(id, "archive"), Tool: "bench", Backup: s.backup.ID, Cluster: s.backup.Source.Cluster,
		ClusterID: s.backup.Source.ClusterID, Base: create.NoBase, Level: codec.Auto, SkipFree: create.SkipOff,
		Shared: true, Lead: true,
	})
	if err != nil && (!part || s.reads < units*s.Blocks) {
		return run, err
	}
	run.committed, run.most, run.requests = time.Since(began), slices.Max(helpers.units), s.count(nil, 0, nil)
	for name, n := range s.direct.Calls() {
		run.requests["EBS "+name] = n - before[name]
	}
	read := 0
	for _, v := range result.Volumes {
		read += int(v.Read)
	}
	if want := units * s.Blocks; !part && read != want {
		return run, fmt.Errorf("%d blocks were archived, not %d", read, want)
	}
	run.rate = float64(s.reads) / s.last.Sub(s.first).Seconds()
	s.Progress(fmt.Sprintf("%d workers: %.0f blocks/s, units %v", workers, run.rate, helpers.units))
	return run, nil
}

// count begins to count, or ends it, and returns what was counted.
func (s *shared) count(from map[string]int, enough int, stop context.CancelFunc) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := s.requests
	s.requests, s.enough, s.stop = from, enough, stop
	if from != nil {
		s.first, s.reads = time.Time{}, 0
	}
	return counted
}

// timed notes when blocks are read.
type timed struct {
	*ebsdirect.Client
	shared *shared
}

func (t timed) Read(ctx context.Context, b ebsdirect.Block, into []byte) (ebsdirect.Sum, error) {
	t.shared.mu.Lock()
	if t.shared.first.IsZero() {
		t.shared.first = time.Now()
	}
	t.shared.mu.Unlock()
	is, err := t.Client.Read(ctx, b, into)
	if err == nil {
		t.shared.mu.Lock()
		defer t.shared.mu.Unlock()
		t.shared.last = time.Now()
		if t.shared.reads++; t.shared.reads == t.shared.enough && t.shared.stop != nil {
			t.shared.stop()
		}
	}
	return is, err
}

// reader connects to the EBS direct APIs with a worker's limit.
func (s *shared) reader(ctx context.Context) (create.Blocks, func(), error) {
	c, err := ebsdirect.Open(ctx, ebsdirect.Config{
		Region: testbed.Region, Endpoint: s.account.URL(), Limits: ebsdirect.Limits{Reads: s.Rate, SnapshotReads: s.Rate},
	})
	if err != nil {
		return nil, nil, err
	}
	return timed{c, s}, c.Close, nil
}

// joining are the workers, as the pods of a Job are.
type joining struct {
	shared  *shared
	workers int
	units   []int
	open    func(context.Context) (*repository.Repository, error)
}

// Work implements create.Helpers.
func (j *joining) Work(ctx context.Context, archive string, _ func(string, ...any)) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range j.workers {
		group.Go(func() error {
			r, err := j.open(ctx)
			if err != nil {
				return err
			}
			blocks, closeBlocks, err := j.shared.reader(ctx)
			if err != nil {
				return err
			}
			defer closeBlocks()
			joined, err := create.Join(ctx, create.JoinDeps{Repository: r, Blocks: blocks, Region: testbed.Region}, create.JoinOptions{
				Archive: archive, Name: fmt.Sprint(i), Index: i, Workers: j.workers,
			})
			j.units[i] = joined.Units
			return err
		})
	}
	return group.Wait()
}
