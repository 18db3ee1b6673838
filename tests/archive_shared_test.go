package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestArchiveCreate_Shared_CommandsThatJoinDoIt: the command that leads reads no block.
func TestArchiveCreate_Shared_CommandsThatJoinDoIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 20})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	url := "s3://" + testbed.Bucket + "/archive"
	repo := []string{"--repo", url, "--repo-identity", key, "-o", "json"}
	backup := p.run(t, "backup", prod.String(), "--name", "shared", "--storage", whole)
	require.Equal(t, cli.ExitDone, backup.code, backup.stderr)
	made := p.run(t, "archive", "init", "--repo", url, "--recipient", identity.Recipient().String())
	require.Equal(t, cli.ExitDone, made.code, made.stderr)

	led := make(chan ending, 1)
	go func() {
		led <- p.run(t, append(repo, "archive", "create", "shared", "--storage", whole, "--shared", "--lead")...)
	}()
	units := 0
	objects := p.storage(t, url)
	var archive string
	require.Eventually(t, func() bool {
		found, err := objects.List(t.Context(), "units/")
		if err == nil && len(found) > 0 {
			archive = strings.Split(found[0].Key, "/")[1]
		}
		return archive != ""
	}, time.Minute, 10*time.Millisecond)
	joined := make(chan ending, 2)
	for i := range 2 {
		go func() {
			joined <- p.run(t, append(repo, "archive", "join", archive, "--name", fmt.Sprint(i),
				"--index", fmt.Sprint(i), "--workers", "2")...)
		}()
	}
	for range 2 {
		e := <-joined
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		var did struct{ Units int }
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &did))
		units += did.Units
	}
	e := <-led
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stderr, "tisnap archive join "+archive)
	require.GreaterOrEqual(t, units, 6)

	dir := t.TempDir()
	restored := p.run(t, append(repo, "archive", "restore", archive, "--to-dir", dir)...)
	require.Equal(t, cli.ExitDone, restored.code, restored.stderr)
	var all struct {
		Items []struct {
			Source cluster.SnapshotID
			File   string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(restored.stdout), &all))
	require.Len(t, all.Items, 6)
	for _, item := range all.Items {
		image, err := p.bed.EC2.Image(item.Source)
		require.NoError(t, err)
		content := make([]byte, 64<<20)
		_, err = image.ReadAt(content, 0)
		require.NoError(t, err)
		requireImage(t, item.File, content)
	}
	gone := p.run(t, append(repo, "archive", "join", archive)...)
	require.Equal(t, cli.ExitCode(4), gone.code, gone.stderr)
	refused := p.run(t, append(repo, "archive", "join", archive, "--index", "2", "--workers", "2")...)
	require.Equal(t, cli.ExitCode(2), refused.code, refused.stderr)
}
