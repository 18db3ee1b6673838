package archivebench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// LargeConfig is what is measured of a repository as large as a fleet's.
type LargeConfig struct {
	Tisnap   string // path of the shipped program
	Dir      string // to work in
	Blocks   int64  // in the repository, at least
	Progress func(string)
}

const (
	largePrefix  = "large/"
	largeVolumes = 20
	changed      = 40  // blocks of each volume, since its base
	payload      = 600 // blocks of the volume that is restored
	zone         = testbed.Region + "a"
)

var (
	largeCluster = cluster.Name{Namespace: "tidb", Name: "large"}
	// stamp is when all that is synthetic was made.
	stamp = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
)

// large is an account with a cluster of large volumes, its backups, and a repository with an archive of the first.
type large struct {
	LargeConfig
	bed    *testbed.Testbed
	ec2    *ebs.Client
	store  objstore.Store
	source cluster.Topology
	repo   *largeRepo
	front  *httptest.Server
}

// Large measures the memory of the shipped program's commands on a repository of so many blocks: an increment, a list, a
// verification of all maps and packs, and the restore of one volume.
func Large(ctx context.Context, c LargeConfig) (out []Figure, err error) {
	c.Dir, err = os.MkdirTemp(c.Dir, "archivebench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(c.Dir) //nolint:errcheck // the folder is a temporary one
	l := &large{LargeConfig: c}
	l.bed, err = testbed.Start(ctx, testbed.Config{Dir: c.Dir, Scale: 200, Seed: 1, Rules: ebstest.QuickRules()})
	if err != nil {
		return nil, err
	}
	defer l.bed.Close()
	if err := l.fill(ctx); err != nil {
		return nil, err
	}
	defer l.ec2.Close()
	defer l.front.Close()
	blocks := len(l.repo.segments) * format.SegmentBlocks
	for _, m := range []struct {
		name   string
		atMost float64
		args   []string
	}{
		{"list", maxMemory, []string{"archive", "list"}},
		{"describe", maxMemory, []string{"archive", "describe", "one"}},
		{"verify --level objects", maxMemory, []string{"archive", "verify", "--level", "objects"}},
		{"create, an increment", maxMemory, []string{"archive", "create", "two", "--storage", "s3://" + testbed.Bucket + "/backups"}},
		{"cat, a restore", 2 * maxMemory, []string{"archive", "cat", "payload", "1/data", "--to", filepath.Join(c.Dir, "out.img")}},
	} {
		u, err := l.run(ctx, m.args)
		if err != nil {
			return nil, err
		}
		c.Progress(fmt.Sprintf("%s: %.1f s of processors, %.1f s", m.name, u.seconds, u.wall))
		how := fmt.Sprintf("%d blocks, %d packs", blocks, l.repo.packs)
		out = append(out,
			Figure{Name: m.name + ": memory", Unit: "MiB", Value: float64(u.memory) / (1 << 20), AtMost: m.atMost, How: how},
			Figure{Name: m.name + ": time", Unit: "CPU s", Value: u.seconds})
	}
	return out, nil
}

// run runs one command of the shipped program.
func (l *large) run(ctx context.Context, args []string) (use, error) {
	t := Tool{env: append(l.bed.Env(), "AWS_ENDPOINT_URL="+l.front.URL)}
	words := append([]string{l.Tisnap}, args...)
	words = append(words, "--repo", "s3://"+testbed.Bucket+"/"+largePrefix, "--repo-identity", filepath.Join(l.Dir, "key"), "--progress", "plain")
	return t.run(ctx, words, "", "", "")
}

// fill makes all of it.
func (l *large) fill(ctx context.Context) (err error) {
	l.ec2, err = ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: l.bed.AWS()})
	if err != nil {
		return err
	}
	open := func(path string) (objstore.Store, error) {
		return objstore.Open(ctx, "s3://"+testbed.Bucket+"/"+path, objstore.Config{Region: testbed.Region, Endpoint: l.bed.AWS()})
	}
	if l.store, err = open("backups"); err != nil {
		return err
	}
	objects, err := open(largePrefix)
	if err != nil {
		return err
	}
	r, owner, err := archivetest.New(ctx, objects, repository.DefaultPackSize)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.Dir, "key"), []byte(owner.String()+"\n"), 0o600); err != nil {
		return err
	}
	if l.repo, err = newLargeRepo(r, testbed.Bucket, largePrefix, l.bed.AWS()); err != nil {
		return err
	}
	l.front = httptest.NewServer(http.Handler(l.repo))
	if err := errors.Join(l.archives(ctx), l.repo.store(ctx, objects)); err != nil {
		return err
	}
	return l.change(ctx)
}

// archives makes the first backup and its archive, and the archive of a volume that is really there.
func (l *large) archives(ctx context.Context) error {
	segments := int((l.Blocks + largeVolumes*format.SegmentBlocks - 1) / (largeVolumes * format.SegmentBlocks))
	l.source = cluster.Topology{Cluster: largeCluster, ClusterID: 7, Version: "8.5.0"}
	spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: int64(segments) * 32}
	for id := range cluster.StoreID(largeVolumes) {
		made, err := l.bed.EC2.CreateVolumeDirect(zone, spec, nil)
		if err != nil {
			return err
		}
		instance := l.bed.EC2.AddInstance(zone)
		if err := l.bed.EC2.Attach(made, instance); err != nil {
			return err
		}
		l.source.Stores = append(l.source.Stores, cluster.Store{ID: id + 1, Instance: instance, Volumes: []cluster.Volume{{
			ID: made, Role: cluster.RoleData, Zone: zone, VolumeSpec: spec,
		}}})
	}
	m, err := l.backup(ctx, "one", stamp)
	if err != nil {
		return err
	}
	text, err := manifest.Encode(m)
	if err != nil {
		return err
	}
	a := &format.Archive{
		Backup: "one", BackupTS: uint64(m.BackupTS), Cluster: largeCluster.String(), Created: stamp, Manifest: format.NewManifest(text),
	}
	for _, s := range m.Snapshots {
		v, err := l.repo.volume(string(s.Role), string(s.ID), segments)
		if err != nil {
			return err
		}
		a.Stores = append(a.Stores, format.Store{ID: uint64(s.Store), Volumes: []format.Volume{v}})
		l.Progress(fmt.Sprintf("made the maps of %d blocks", len(l.repo.segments)*format.SegmentBlocks))
	}
	return errors.Join(l.repo.Commit(ctx, "one", a), l.payload(ctx))
}

// payload archives a volume of random blocks.
func (l *large) payload(ctx context.Context) error {
	packing := l.repo.Pack(ctx, repository.PackOptions{Names: format.NewPackNames(), Packers: packers, Way: l.repo.Way()})
	archiver, err := volume.NewArchiver(l.repo.Repository, packing, packers, chunks)
	if err != nil {
		return err
	}
	source := &volume.Image{Bytes: payload * blockBytes, From: randomAt{}}
	v, _, err := archiver.Archive(ctx, volume.Task{Source: source})
	if err = errors.Join(err, archiver.Flush(), packing.Wait()); err != nil {
		return err
	}
	v.Role = "data"
	return l.repo.Commit(ctx, "payload", &format.Archive{
		Backup: "payload", Created: stamp.Add(-time.Hour), Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	})
}

// randomAt is an endless source of random bytes.
type randomAt struct{}

func (randomAt) ReadAt(p []byte, _ int64) (int, error) { return rand.Read(p) }

// change writes on all volumes, and makes another backup.
func (l *large) change(ctx context.Context) error {
	block := make([]byte, blockBytes)
	for _, s := range l.source.Stores {
		device, err := l.bed.EC2.Device(s.Volumes[0].ID)
		if err != nil {
			return err
		}
		for n := range int64(changed) {
			_, _ = rand.Read(block) // never fails
			if _, err := device.WriteAt(block, n*(device.Size()/changed/blockBytes)*blockBytes); err != nil {
				return err
			}
		}
	}
	_, err := l.backup(ctx, "two", stamp.Add(time.Hour))
	return err
}

// backup snapshots all volumes, and seals a backup of them.
func (l *large) backup(ctx context.Context, name cluster.BackupID, at time.Time) (*manifest.Manifest, error) {
	m := &manifest.Manifest{
		ID: name, Run: "made", Region: testbed.Region, BackupTS: cluster.MakeTS(at, 0), CreatedAt: at, Source: l.source,
	}
	for _, s := range l.source.Stores {
		v := s.Volumes[0]
		made, err := l.ec2.Cut(ctx, ebs.CutRequest{Instance: s.Instance, Volumes: []cluster.VolumeID{v.ID}})
		if err != nil {
			return nil, err
		}
		if err := completed(ctx, l.bed.EC2, made[0].ID); err != nil {
			return nil, err
		}
		m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(made[0].ID, s.ID, v, at))
	}
	return m, seal(ctx, l.store, m, at)
}

// completed waits for a snapshot.
func completed(ctx context.Context, account *ebstest.Server, id cluster.SnapshotID) error {
	return wait.Until(ctx, wait.Every(10*time.Millisecond), func() (bool, error) {
		found, _, ok := account.Snapshot(id)
		return ok && found.State == ebs.SnapshotCompleted, nil
	})
}

// seal seals a backup.
func seal(ctx context.Context, store objstore.Store, m *manifest.Manifest, at time.Time) error {
	backups := catalog.Catalog{Store: store}
	err := backups.Claim(ctx, catalog.Claim{ID: m.ID, Run: m.Run, Cluster: m.Source.Cluster, ClaimedAt: at})
	if err == nil {
		err = backups.PutManifest(ctx, m)
	}
	if err == nil {
		err = backups.Seal(ctx, m.ID, at, 1<<30)
	}
	return err
}
