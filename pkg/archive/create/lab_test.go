package create_test

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

const (
	zone    = cluster.Zone("us-west-2a")
	region  = "us-west-2"
	blocks  = 1 << 30 / volume.BlockSize
	perPack = 8 // blocks
)

// lab is an account with a cluster of two volumes, a storage with its backups, and a repository.
type lab struct {
	account *ebstest.Server
	clock   ebs.Clock
	ec2     *ebs.Client
	direct  *ebsdirect.Client
	store   *objstoretest.Memory
	objects *stalling // of the repository
	repo    *repository.Repository
	random  *rand.ChaCha8
	source  cluster.Topology
	backups int
	want    map[cluster.SnapshotID]*disk.Image
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabOf(t, 1)
}

// newLabOf makes volumes of so many GiB.
func newLabOf(t *testing.T, gib int64) *lab {
	t.Helper()
	clock := timescale.New(100)
	l := &lab{
		account: ebstest.New(ebstest.Config{Clock: clock, Seed: 1}), clock: clock, store: objstoretest.NewMemory(nil),
		objects: &stalling{Memory: objstoretest.NewMemory(nil)}, random: rand.NewChaCha8([32]byte{}), want: map[cluster.SnapshotID]*disk.Image{},
	}
	ebsdirecttest.New(l.account, ebsdirecttest.Config{Clock: clock, Rules: ebsdirecttest.DefaultRules()})
	require.NoError(t, l.account.Start())
	t.Cleanup(l.account.Close)
	var err error
	l.ec2, err = ebs.Open(t.Context(), ebs.Config{Region: region, Endpoint: l.account.URL(), Clock: clock})
	require.NoError(t, err)
	t.Cleanup(l.ec2.Close)
	l.direct = l.open(t)
	l.repo, _, err = archivetest.New(t.Context(), l.objects, perPack*volume.BlockSize)
	require.NoError(t, err)
	l.source = cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7, Version: "8.5.0"}
	for id := range cluster.StoreID(2) {
		made, err := l.account.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: gib}, nil)
		require.NoError(t, err)
		instance := l.account.AddInstance(zone)
		require.NoError(t, l.account.Attach(made, instance))
		l.source.Stores = append(l.source.Stores, cluster.Store{
			ID: id + 1, Instance: instance, Volumes: []cluster.Volume{{
				ID: made, Role: cluster.RoleData, Zone: zone, VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: gib},
			}},
		})
	}
	return l
}

// stalling is a store in which the upload of one pack does not end by itself.
type stalling struct {
	*objstoretest.Memory
	stallOnce atomic.Bool
	before    func(key string) // is called before each Create
	read      func(key string) // and this before each Get
	keeps     bool             // nothing may be deleted
	keepsOnce func()           // is called instead of the next Delete, which fails
	slowDown  atomic.Bool      // the next read of what is condemned fails
}

func (s *stalling) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if strings.HasPrefix(key, format.CondemnedPrefix) && s.slowDown.CompareAndSwap(true, false) {
		return nil, "", failure.New(failure.Limited, "read object", key, "slow down")
	}
	if s.read != nil {
		s.read(key)
	}
	return s.Memory.Get(ctx, key)
}

func (s *stalling) Delete(ctx context.Context, key string) error {
	if stop := s.keepsOnce; stop != nil {
		s.keepsOnce = nil
		stop()
		return failure.New(failure.Limited, "delete object", key, "slow down")
	}
	if s.keeps {
		return failure.New(failure.Denied, "delete object", key, "not allowed")
	}
	return s.Memory.Delete(ctx, key)
}

func (s *stalling) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if strings.HasPrefix(key, format.PackPrefix) && s.stallOnce.CompareAndSwap(true, false) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if s.before != nil {
		s.before(key)
	}
	return s.Memory.Create(ctx, key, body)
}

// open connects to the EBS direct APIs, as each process does.
func (l *lab) open(t *testing.T) *ebsdirect.Client {
	t.Helper()
	c, err := ebsdirect.Open(t.Context(), ebsdirect.Config{Region: region, Endpoint: l.account.URL(), Clock: l.clock})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// write writes random blocks on the volume of a store.
func (l *lab) write(t *testing.T, store int, indexes ...int64) {
	t.Helper()
	device, err := l.account.Device(l.source.Stores[store].Volumes[0].ID)
	require.NoError(t, err)
	raw := make([]byte, volume.BlockSize)
	for _, index := range indexes {
		_, _ = l.random.Read(raw)
		_, err := device.WriteAt(raw, index*volume.BlockSize)
		require.NoError(t, err)
	}
}

// backup snapshots both volumes and seals a backup of them.
func (l *lab) backup(t *testing.T) cluster.BackupID {
	t.Helper()
	l.backups++
	at := time.Date(2026, 11, 21, 8, l.backups, 0, 0, time.UTC)
	m := &manifest.Manifest{
		ID: cluster.BackupID([]string{"one", "two", "three"}[l.backups-1]), Run: "made", Region: region,
		BackupTS: cluster.MakeTS(at, 0), CreatedAt: at, Source: l.source,
	}
	for _, s := range l.source.Stores {
		v := s.Volumes[0]
		made, err := l.ec2.Cut(t.Context(), ebs.CutRequest{Instance: s.Instance, Volumes: []cluster.VolumeID{v.ID}})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			found, _, ok := l.account.Snapshot(made[0].ID)
			return ok && found.State == ebs.SnapshotCompleted
		}, 30*time.Second, time.Millisecond)
		m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(made[0].ID, s.ID, v, at))
		l.want[made[0].ID], err = l.account.Image(made[0].ID)
		require.NoError(t, err)
	}
	backups := catalog.Catalog{Store: l.store}
	require.NoError(t, backups.Claim(t.Context(),
		catalog.Claim{ID: m.ID, Run: m.Run, Cluster: l.source.Cluster, ClaimedAt: at}))
	require.NoError(t, backups.PutManifest(t.Context(), m))
	require.NoError(t, backups.Seal(t.Context(), m.ID, at, 1<<30))
	return m.ID
}

func (l *lab) deps(blocks create.Blocks) create.Deps {
	return create.Deps{Store: l.store, Repository: l.repo, Blocks: blocks, EC2: l.ec2, Region: region}
}

func (l *lab) options(backup cluster.BackupID, run cluster.RunID) create.Options {
	return create.Options{
		Run: run, Owner: runlock.NewOwner(run, "archive"), Tool: "v1", Backup: backup, Cluster: l.source.Cluster,
		ClusterID: 7, Level: codec.Auto, SkipFree: create.SkipOff,
	}
}

// archive archives a backup in one process.
func (l *lab) archive(t *testing.T, backup cluster.BackupID, run cluster.RunID) *create.Result {
	t.Helper()
	result, err := create.Run(t.Context(), l.deps(l.open(t)), l.options(backup, run))
	require.NoError(t, err)
	require.True(t, result.Committed)
	return result
}

// requireWhole restores all volumes of an archive and compares them byte by byte.
func (l *lab) requireWhole(t *testing.T, id string) {
	t.Helper()
	a, err := l.repo.Archive(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, a.Stores, 2)
	for _, s := range a.Stores {
		require.Len(t, s.Volumes, 1)
		v := s.Volumes[0]
		require.Len(t, v.Proofs, len(v.Segments))
		got := &sparse{}
		require.NoError(t, volume.Restore(t.Context(), l.repo, v, got, 4))
		want, zeros := l.want[cluster.SnapshotID(v.Source)], make([]byte, volume.BlockSize)
		raw := make([]byte, volume.BlockSize)
		// what was written on neither is zeros
		for _, index := range append(slices.Collect(maps.Keys(got.blocks)), want.Allocated(volume.BlockSize)...) {
			_, err := want.ReadAt(raw, index*volume.BlockSize)
			require.NoError(t, err)
			have := got.block(index)
			if have == nil {
				have = zeros
			}
			require.True(t, bytes.Equal(raw, have), "store %d, block %d", s.ID, index)
		}
	}
}

// sum adds the counts of all volumes.
func sum(r *create.Result) (stats volume.Stats) {
	for _, v := range r.Volumes {
		stats.Add(v.Stats)
	}
	return stats
}

// stopped runs with the options in a process that ends when so many blocks are read.
func (l *lab) stopped(t *testing.T, reads int, o create.Options) *create.Result {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	result, err := create.Run(ctx, l.deps(stopAfter(l.open(t), reads, stop)), o)
	require.Error(t, err)
	return result
}

// stopping ends a context with the read of block number after.
type stopping struct {
	*ebsdirect.Client
	after chan struct{}
	stop  context.CancelFunc
}

func stopAfter(b *ebsdirect.Client, reads int, stop context.CancelFunc) *stopping {
	s := &stopping{Client: b, after: make(chan struct{}, reads), stop: stop}
	for range reads {
		s.after <- struct{}{}
	}
	return s
}

func (s *stopping) Read(ctx context.Context, b ebsdirect.Block, into []byte) (ebsdirect.Sum, error) {
	select {
	case <-s.after:
		return s.Client.Read(ctx, b, into)
	default:
		s.stop()
		return ebsdirect.Sum{}, context.Canceled
	}
}

// packs are the names of all packs in the repository.
func (l *lab) packs(t *testing.T) (names []string) {
	t.Helper()
	objects, err := l.objects.List(t.Context(), format.PackPrefix)
	require.NoError(t, err)
	for _, o := range objects {
		names = append(names, o.Key)
	}
	slices.Sort(names)
	return names
}
