package tests

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// archiveOf archives a volume of 1 GiB, which begins with data, as store 4's.
func archiveOf(t *testing.T, r *repository.Repository, id string, data []byte) {
	t.Helper()
	sparse, err := os.Create(filepath.Join(t.TempDir(), "volume"))
	require.NoError(t, err)
	defer sparse.Close()
	_, err = sparse.Write(data)
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<30))
	packing := r.Pack(t.Context(), repository.PackOptions{
		Source: format.Source{Archive: id}, Names: format.NewPackNames(), Level: codec.S2, Packers: 1, Way: repository.Way{Uploads: 1},
	})
	archiver, err := volume.NewArchiver(r, packing, 1, 1)
	require.NoError(t, err)
	v, _, err := archiver.Archive(t.Context(), volume.Task{Source: &volume.Image{Bytes: 1 << 30, From: sparse}})
	require.NoError(t, err)
	require.NoError(t, archiver.Flush())
	require.NoError(t, packing.Wait())
	v.Role = "data"
	require.NoError(t, r.Commit(t.Context(), id, &format.Archive{
		Backup: "nightly", Cluster: "tidb/prod", Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 4, Volumes: []format.Volume{v}}},
	}))
}

// TestArchiveRestore_ToSnapshots_InAnyAccount makes a snapshot of an archived volume, byte by byte, in an account that has never
// seen it. The same command makes no other.
func TestArchiveRestore_ToSnapshots_InAnyAccount(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	repo := "s3://" + testbed.Bucket + "/archive"
	flags := []string{"--repo", repo, "--repo-identity", key}
	e := p.run(t, "archive", "init", "--repo", repo, "--recipient", identity.Recipient().String())
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	store, err := objstore.Open(t.Context(), repo, objstore.Config{Region: testbed.Region, Endpoint: p.bed.AWS()})
	require.NoError(t, err)
	defer store.(interface{ Close() }).Close()
	r, err := repository.Open(t.Context(), store, identity)
	require.NoError(t, err)
	data := make([]byte, 5*volume.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	archiveOf(t, r, "one", data)

	var ids []cluster.SnapshotID
	for _, run := range []string{"", "", "again"} {
		e := p.run(t, append([]string{"archive", "restore", "latest", "--to-snapshots", "--run-id", run, "-o", "json"}, flags...)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		var doc struct {
			Items []struct{ Snapshot cluster.SnapshotID }
		}
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
		require.Len(t, doc.Items, 1)
		ids = append(ids, doc.Items[0].Snapshot)
	}
	require.Equal(t, ids[0], ids[1], "the same command")
	require.NotEqual(t, ids[0], ids[2], "another run")
	image, err := p.bed.EC2.Image(ids[0])
	require.NoError(t, err)
	is := make([]byte, len(data)+volume.BlockSize)
	_, err = image.ReadAt(is, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(slices.Concat(data, make([]byte, volume.BlockSize)), is))
	found, _, ok := p.bed.EC2.Snapshot(ids[0])
	require.True(t, ok)
	assert.Equal(t, ebs.SnapshotCompleted, found.State)
	assert.EqualValues(t, 1, found.SizeGiB)
	assert.Equal(t, ebs.Tags{
		ebs.TagArchive: "one", ebs.TagBackup: "nightly", ebs.TagCluster: "tidb/prod", ebs.TagStore: "4", ebs.TagRole: "data",
	}, found.Tags, "none of a run: gc leaves it")
}
