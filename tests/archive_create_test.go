package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestArchiveCreate_TwoBackups_GivesBothBackWithoutTheirSnapshots archives two backups of a cluster. Of the second one only what
// changed is read. After all snapshots were deleted, the images of both are what the snapshots were, in the first 64 MiB, which
// have all of the stand-in's data.
func TestArchiveCreate_TwoBackups_GivesBothBackWithoutTheirSnapshots(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 20})
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	repo := []string{"--repo", "s3://" + testbed.Bucket + "/archive"}
	do := func(into any, args ...string) {
		if args[0] == "archive" {
			args = append(args, repo...)
		}
		e := p.run(t, append(args, "--storage", whole, "-o", "json")...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.NoError(t, json.Unmarshal([]byte(e.stdout), into))
	}
	do(&struct{}{}, "archive", "init", "--recipient", identity.Recipient().String())
	repo = append(repo, "--repo-identity", key)

	var made [2]struct {
		Archive   string
		Committed bool
		Report    report.Report
	}
	want := [2]map[string][]byte{{}, {}}
	for i := range made {
		backup := fmt.Sprintf("backup-%d", i)
		require.NoError(t, c.SplitAt(t.Context(), []byte{byte('a' + i)}))
		do(&struct{}{}, "backup", prod.String(), "--name", backup)
		var plan struct{ ReadBytes int64 }
		do(&plan, "archive", "create", "latest", "--dry-run")
		do(&made[i], "archive", "create", "latest")
		require.True(t, made[i].Committed)
		require.Equal(t, plan.ReadBytes, made[i].Report.Archived.ReadBytes, "as the dry run counted")
		for _, v := range made[i].Report.Archived.Volumes {
			image, err := p.bed.EC2.Image(v.Snapshot)
			require.NoError(t, err)
			content := make([]byte, 64<<20)
			_, err = image.ReadAt(content, 0)
			require.NoError(t, err)
			want[i][fmt.Sprintf("store-%d-%s.img", v.Store, v.Role)] = content
			require.Equal(t, []string{"nothing", "snapshot"}[i], v.Compared)
		}
	}
	require.Equal(t, made[0].Archive, made[1].Report.Archived.Base)
	var compared struct {
		Compared int64
		Gone     []string
	}
	do(&compared, "archive", "verify", "--level", "objects", "--against-snapshots")
	require.NotZero(t, compared.Compared)
	require.Empty(t, compared.Gone)
	type keptArchive struct{ Backup, Archive, Repository string }
	var deleted struct{ Archives []keptArchive }
	kept := []keptArchive{
		{"backup-0", made[0].Archive, made[0].Report.Archived.Repository},
		{"backup-1", made[1].Archive, made[1].Report.Archived.Repository},
	}
	do(&deleted, "delete", "backup-0", "backup-1", "--last", "--dry-run")
	require.Equal(t, kept, deleted.Archives)
	do(&deleted, "delete", "backup-0", "--yes", "--delete-rate", "100")
	require.Equal(t, kept[:1], deleted.Archives)
	e := p.run(t, "delete", "backup-1", "--yes", "--last", "--delete-rate", "100", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stdout, "backup backup-1 was archived as "+made[1].Archive+" in repository ")
	for i := range made {
		dir := t.TempDir()
		do(&struct{}{}, "archive", "restore", made[i].Archive, "--to-dir", dir)
		for name, content := range want[i] {
			requireImage(t, filepath.Join(dir, name), content)
		}
	}
	do(&struct{}{}, "archive", "verify")
}

// TestArchiveCreate_Latest_FirstFinishesWhatItBegan: an archive may take longer than the time to the next backup.
func TestArchiveCreate_Latest_FirstFinishesWhatItBegan(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Nodes: 3, Scale: 20, Faults: faults})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("correct horse battery staple"), 0o600))
	repo := []string{"--repo", "s3://" + testbed.Bucket + "/archive", "--repo-passphrase-file", key}
	archive := func(code cli.ExitCode, args ...string) (stderr string, of cluster.BackupID) {
		t.Helper()
		e := p.run(t, slices.Concat([]string{"archive"}, args, repo, []string{"--storage", whole, "-o", "json"})...)
		require.Equal(t, code, e.code, e.stderr)
		var made struct {
			Report struct{ Backup cluster.BackupID }
		}
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &made))
		return e.stderr, made.Report.Backup
	}
	archive(cli.ExitDone, "init")
	backUp := func(name string) {
		t.Helper()
		e := p.run(t, "backup", prod.String(), "--name", name, "--storage", whole)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	backUp("older")
	require.NoError(t, faults.Add(fault.Rule{Point: "ebs.GetSnapshotBlock", Position: fault.Before, Code: "AccessDeniedException"}))
	archive(7, "create", "latest")
	backUp("newer")
	for _, want := range []cluster.BackupID{"older", "newer"} {
		stderr, of := archive(cli.ExitDone, "create", "latest")
		require.Equal(t, want, of)
		require.Equal(t, want == "older", strings.Contains(stderr, "continuing with the backup that was the latest when it began, older"), stderr)
	}
}

// requireImage requires that a file begins with content, and has only zeros in the next blocks.
func requireImage(t *testing.T, path string, content []byte) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	is := make([]byte, len(content)+volume.BlockSize)
	_, err = file.ReadAt(is, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(content, make([]byte, volume.BlockSize)...), is), path)
}
