package snapshot_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	// A server that answers before it has read all of a body sleeps for half a second before it ends the connection, which
	// is longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	zone    = cluster.Zone("us-west-2a")
	gib     = 1
	blocks  = gib << 30 / volume.BlockSize
	nothing = cluster.SnapshotID("")
)

// account is an AWS account with one instance and its volume.
type account struct {
	*ebsdirect.Client
	ec2      *ebs.Client
	server   *ebstest.Server
	instance cluster.InstanceID
	volume   cluster.VolumeID
}

func newAccount(t *testing.T) *account {
	t.Helper()
	clock := timescale.New(100)
	a := &account{server: ebstest.New(ebstest.Config{Clock: clock, Seed: 1})}
	ebsdirecttest.New(a.server, ebsdirecttest.Config{Clock: clock, Rules: ebsdirecttest.DefaultRules()})
	require.NoError(t, a.server.Start())
	t.Cleanup(a.server.Close)
	var err error
	a.Client, err = ebsdirect.Open(t.Context(), ebsdirect.Config{Region: "us-west-2", Endpoint: a.server.URL(), Clock: clock})
	require.NoError(t, err)
	t.Cleanup(a.Client.Close)
	a.ec2, err = ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: a.server.URL(), Clock: clock})
	require.NoError(t, err)
	t.Cleanup(a.ec2.Close)
	a.instance = a.server.AddInstance(zone)
	a.volume, err = a.server.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: gib}, nil)
	require.NoError(t, err)
	require.NoError(t, a.server.Attach(a.volume, a.instance))
	return a
}

// write writes random blocks on the volume.
func (a *account) write(t *testing.T, random *rand.ChaCha8, indexes ...int64) {
	t.Helper()
	device, err := a.server.Device(a.volume)
	require.NoError(t, err)
	raw := make([]byte, volume.BlockSize)
	for _, index := range indexes {
		_, _ = random.Read(raw)
		_, err := device.WriteAt(raw, index*volume.BlockSize)
		require.NoError(t, err)
	}
}

// cut snapshots the volume.
func (a *account) cut(t *testing.T) cluster.SnapshotID {
	t.Helper()
	made, err := a.ec2.Cut(t.Context(), ebs.CutRequest{Instance: a.instance, Volumes: []cluster.VolumeID{a.volume}})
	require.NoError(t, err)
	a.completed(t, made[0].ID)
	return made[0].ID
}

func (a *account) completed(t *testing.T, id cluster.SnapshotID) {
	t.Helper()
	require.Eventually(t, func() bool {
		found, _, ok := a.server.Snapshot(id)
		return ok && found.State == ebs.SnapshotCompleted
	}, 30*time.Second, time.Millisecond)
}

// content is what a volume of the snapshot has.
func (a *account) content(t *testing.T, id cluster.SnapshotID) *disk.Image {
	t.Helper()
	image, err := a.server.Image(id)
	require.NoError(t, err)
	return image
}

func requireEqual(t *testing.T, want, got *disk.Image) {
	t.Helper()
	w, g := make([]byte, volume.BlockSize), make([]byte, volume.BlockSize)
	// what was written on neither is zeros
	for _, index := range append(got.Allocated(volume.BlockSize), want.Allocated(volume.BlockSize)...) {
		_, err := want.ReadAt(w, index*volume.BlockSize)
		require.NoError(t, err)
		_, err = got.ReadAt(g, index*volume.BlockSize)
		require.NoError(t, err)
		require.True(t, bytes.Equal(w, g), "block %d", index)
	}
}

func newRepository(t *testing.T) *repository.Repository {
	t.Helper()
	r, _, err := archivetest.New(t.Context(), objstoretest.NewMemory(nil), 8<<20)
	require.NoError(t, err)
	return r
}

func (a *account) archive(
	t *testing.T, r *repository.Repository, id, base cluster.SnapshotID, of format.Volume,
) (format.Volume, volume.Stats) {
	t.Helper()
	src, err := snapshot.Open(t.Context(), a, id, base)
	require.NoError(t, err)
	packing := r.Pack(t.Context(), repository.PackOptions{
		Names: format.NewPackNames(), Level: codec.Auto, Packers: 2, Way: repository.Way{Uploads: 2},
	})
	archiver, err := volume.NewArchiver(r, packing, 2, 4)
	require.NoError(t, err)
	v, stats, err := archiver.Archive(t.Context(), volume.Task{
		Source: src, Base: volume.Base{Segments: of.Segments, Differential: base != nothing},
	})
	require.NoError(t, err)
	require.NoError(t, archiver.Flush())
	require.NoError(t, packing.Wait())
	return v, stats
}

// restore makes a snapshot of an archived volume, and returns its content.
func (a *account) restore(t *testing.T, r *repository.Repository, v format.Volume, token string) *disk.Image {
	t.Helper()
	target, err := snapshot.Start(t.Context(), a, v, ebsdirect.NewSnapshot{Token: token})
	require.NoError(t, err)
	require.NoError(t, volume.Restore(t.Context(), r, v, target, 4))
	require.NoError(t, target.Complete(t.Context(), v))
	a.completed(t, target.ID)
	return a.content(t, target.ID)
}

// Two archives of a volume outlive its snapshots: both become snapshots of another account, byte by byte. The second one reads
// the changed blocks alone.
func TestSnapshot_ArchivedTwice_BothComeBackInAnotherAccount(t *testing.T) {
	t.Parallel()
	a, r, random := newAccount(t), newRepository(t), rand.NewChaCha8([32]byte{})
	a.write(t, random, 0, 1, 2, 3, 40, 41, 1000, blocks-1)
	first := a.cut(t)
	v1, stats := a.archive(t, r, first, nothing, format.Volume{})
	require.EqualValues(t, 8, stats.Read, "only what was ever written")
	a.write(t, random, 2, 500)
	device, err := a.server.Device(a.volume)
	require.NoError(t, err)
	_, err = device.WriteAt(make([]byte, volume.BlockSize), 40*volume.BlockSize)
	require.NoError(t, err)
	second := a.cut(t)
	calls := a.Stats().Reads
	v2, stats := a.archive(t, r, second, first, v1)
	require.Equal(t, volume.Stats{Read: 3, Zero: 1, Packed: 2}, stats)
	require.EqualValues(t, 3, a.Stats().Reads-calls, "an increment pays for what changed")
	want1, want2 := a.content(t, first), a.content(t, second)
	require.NoError(t, a.ec2.DeleteSnapshot(t.Context(), first))
	require.NoError(t, a.ec2.DeleteSnapshot(t.Context(), second))

	b := newAccount(t)
	requireEqual(t, want1, b.restore(t, r, v1, "one"))
	requireEqual(t, want2, b.restore(t, r, v2, "two"))
}

// A restore that left out a block is not taken for a snapshot.
func TestComplete_BlockIsMissing_RefusedByEBS(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t), newRepository(t)
	a.write(t, rand.NewChaCha8([32]byte{}), 0, 1)
	v, _ := a.archive(t, r, a.cut(t), nothing, format.Volume{})
	target, err := snapshot.Start(t.Context(), a, v, ebsdirect.NewSnapshot{Token: "t"})
	require.NoError(t, err)
	err = volume.Restore(t.Context(), r, v, dropping{target}, 1)
	require.NoError(t, err)
	require.Error(t, target.Complete(t.Context(), v))
}

type dropping struct{ volume.Target }

func (d dropping) Write(ctx context.Context, index int64, block []byte, digest format.Digest) error {
	if index == 1 {
		return nil
	}
	return d.Target.Write(ctx, index, block, digest)
}

func TestStart_VolumeIsNotOfWholeGiB_Refused(t *testing.T) {
	t.Parallel()
	_, err := snapshot.Start(t.Context(), newAccount(t), format.Volume{Size: 1<<30 + 1}, ebsdirect.NewSnapshot{Token: "t"})
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}
