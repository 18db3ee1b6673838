package copyrun_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

const (
	home, away     = "111111111111", "222222222222"
	homeAt, awayAt = "us-west-2", "eu-west-1"
	speed          = 300
	// hidden is how long the stand-in may hide a snapshot, and some more, in real time.
	hidden = 100 * time.Millisecond
)

// at is a store that is found at a URL of its own.
type at struct {
	objstore.Store
	url string
}

func (a at) URL() string { return a.url }

// place is an account in a region with a storage.
type place struct {
	server *ebstest.Server
	faults *fault.Plan
	client *ebs.Client
	store  *objstoretest.Memory
	s3     *fault.Plan // of the store
	url    string
}

func (p *place) at() objstore.Store { return at{p.store, p.url} }

// lab has a cluster's backups in one account and region, and another of both that gets the copies.
type lab struct {
	from, to *place
	topology cluster.Topology
	made     int
	signKey  *manifest.SigningKey // of the backups; nil signs none
	empty    bool                 // nothing is written on the volumes: as EC2 then does not report how much is, their size counts
}

// newLab has so many stores with one volume each. change may alter each account.
func newLab(t *testing.T, stores int, change ...func(*ebstest.Config)) *lab {
	t.Helper()
	clock := timescale.New(speed)
	configs := []ebstest.Config{{Region: homeAt, Account: home}, {Region: awayAt, Account: away}}
	for i := range configs {
		configs[i].Clock, configs[i].Faults, configs[i].Rules, configs[i].Seed = clock, &fault.Plan{}, ebstest.QuickRules(), 1
		for _, c := range change {
			c(&configs[i])
		}
	}
	world := ebstest.NewWorld(configs...)
	require.NoError(t, world.Start())
	t.Cleanup(world.Close)
	var places []*place
	for i, server := range world.Servers() {
		client, err := ebs.Open(t.Context(), ebs.Config{Region: server.Region(), Endpoint: server.URL(), Clock: clock})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		s3 := &fault.Plan{}
		places = append(places, &place{
			server: server, faults: configs[i].Faults, client: client, store: objstoretest.NewMemory(s3), s3: s3,
			url: "s3://" + server.Region() + "/backups",
		})
	}
	l := &lab{from: places[0], to: places[1]}
	l.topology = cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7, Version: "8.5.0"}
	for id := range cluster.StoreID(stores) {
		spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}
		volume, err := l.from.server.CreateVolumeDirect(homeAt+"a", spec, nil)
		require.NoError(t, err)
		instance := l.from.server.AddInstance(homeAt + "a")
		require.NoError(t, l.from.server.Attach(volume, instance))
		l.topology.Stores = append(l.topology.Stores, cluster.Store{
			ID: id + 1, Instance: instance, Volumes: []cluster.Volume{{ID: volume, Role: cluster.RoleData, Zone: homeAt + "a", VolumeSpec: spec}},
		})
	}
	return l
}

// backup snapshots all volumes and seals a backup of them.
func (l *lab) backup(t *testing.T) cluster.BackupID {
	t.Helper()
	l.made++
	start := time.Date(2026, 11, 21, 8, l.made, 0, 0, time.UTC)
	m := &manifest.Manifest{
		ID: cluster.BackupID("backup-" + strings.Repeat("i", l.made)), Run: "made", Tool: "v0", Region: homeAt,
		BackupTS: cluster.MakeTS(start, 0), CreatedAt: start, Source: l.topology,
	}
	for _, s := range l.topology.Stores {
		v := s.Volumes[0]
		if !l.empty {
			device, err := l.from.server.Device(v.ID)
			require.NoError(t, err)
			_, err = device.WriteAt([]byte(fmt.Sprint(s.ID, m.ID)), int64(l.made)<<20)
			require.NoError(t, err)
		}
		made, err := l.from.client.Cut(t.Context(), ebs.CutRequest{
			Instance: s.Instance, Volumes: []cluster.VolumeID{v.ID}, Tags: ebs.Tags{ebs.TagRun: string(m.Run)},
		})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			found, _, ok := l.from.server.Snapshot(made[0].ID)
			return ok && found.State == ebs.SnapshotCompleted
		}, 30*time.Second, time.Millisecond)
		snap := manifest.NewSnapshot(made[0].ID, s.ID, v, start)
		m.Snapshots = append(m.Snapshots, snap)
	}
	backups := catalog.Catalog{Store: l.from.at(), SignKey: l.signKey}
	require.NoError(t, backups.Claim(t.Context(), catalog.Claim{ID: m.ID, Run: m.Run, Cluster: l.topology.Cluster, ClaimedAt: start}))
	require.NoError(t, backups.PutManifest(t.Context(), m))
	require.NoError(t, backups.Seal(t.Context(), m.ID, start, 1<<30))
	return m.ID
}

// sourceKey is one that the target's account may use.
const sourceKey = "arn:aws:kms:" + homeAt + ":" + home + ":key/source"

// encrypt encrypts all volumes by it, before the first backup.
func (l *lab) encrypt(t *testing.T) {
	t.Helper()
	l.from.server.ShareKey(sourceKey, away)
	for _, s := range l.topology.Stores {
		require.NoError(t, l.from.server.Encrypt(s.Volumes[0].ID, sourceKey))
	}
}

func (l *lab) deps() copyrun.Deps {
	return copyrun.Deps{From: l.from.at(), To: l.to.at(), Source: l.from.client, Target: l.to.client}
}

func (l *lab) options(backup cluster.BackupID, run cluster.RunID) copyrun.Options {
	return copyrun.Options{
		Run: run, Owner: runlock.NewOwner(run, "copy"), Tool: "v1", Backup: backup, Cluster: l.topology.Cluster,
		ClusterID: 7, Visibility: hidden, Poll: 5 * time.Millisecond, LockWait: runlock.NoWait,
	}
}

// requireWhole requires that the copy is sealed, and that the target has its snapshots alone, whose data is the source's.
func (l *lab) requireWhole(t *testing.T, backup cluster.BackupID) *manifest.Manifest {
	t.Helper()
	source, err := catalog.Catalog{Store: l.from.at()}.Load(t.Context(), backup)
	require.NoError(t, err)
	m, err := catalog.Catalog{Store: l.to.at()}.Load(t.Context(), backup)
	require.NoError(t, err)
	require.Len(t, m.Snapshots, len(source.Snapshots))
	for i, s := range m.Snapshots {
		require.Equal(t, source.Snapshots[i].ID, s.CopiedFrom)
		require.Equal(t, source.Snapshots[i].Volume, s.Volume)
		got, image, ok := l.to.server.Snapshot(s.ID)
		require.True(t, ok)
		require.Equal(t, ebs.SnapshotCompleted, got.State)
		require.Equal(t, string(s.CopiedFrom), got.Tags[ebs.TagCopiedFrom])
		_, want, ok := l.from.server.Snapshot(s.CopiedFrom)
		require.True(t, ok)
		require.Empty(t, image.Changed(want, 1<<20))
	}
	require.Equal(t, source.BackupTS, m.BackupTS)
	require.Equal(t, awayAt, m.Region)
	require.Equal(t, home, m.CopyOf.Account)
	return m
}

// copies are the snapshots in the target.
func (l *lab) copies() int { return len(l.to.server.Snapshots()) }

// requireUnshared requires that the target's account may not read the source's snapshots.
func (l *lab) requireUnshared(t *testing.T) {
	t.Helper()
	for _, s := range l.from.server.Snapshots() {
		with, err := l.from.client.SharedWith(t.Context(), s.ID)
		require.NoError(t, err)
		require.Empty(t, with, "%s", s.ID)
	}
}

func catalogOf(p *place) catalog.Catalog { return catalog.Catalog{Store: p.at()} }

type printing struct{ t *testing.T }

func (p printing) Emit(e phase.Event) {
	if e.Type != phase.Progress {
		p.t.Logf("%s %s %s", e.Type, e.Step, e.Message)
	}
}
