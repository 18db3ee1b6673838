package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// e2fs runs one of e2fsprogs' programs. Without them the test is skipped, unless TISNAP_TEST_EXT4 requires them.
func e2fs(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join("/usr/sbin", name)
	}
	if _, err := os.Stat(path); err != nil && os.Getenv("TISNAP_TEST_EXT4") == "" {
		t.Skipf("%s is not installed; make test-archive installs it", name)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %q: %s%s", name, args, out, stderr.String())
	return string(out)
}

// fileSystem is an image of 64 MiB with ext4, and the device of a volume that has it, too.
type fileSystem struct {
	image  string
	device interface {
		WriteAt(p []byte, at int64) (int, error)
	}
}

// newFileSystem makes one with three files.
func newFileSystem(t *testing.T) *fileSystem {
	t.Helper()
	folder := t.TempDir()
	for i, name := range []string{"kept", "back", "gone"} {
		content := strings.Repeat(fmt.Sprintln("line of", name), (i+1)<<18)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	f := &fileSystem{image: filepath.Join(t.TempDir(), "image")}
	require.NoError(t, os.WriteFile(f.image, nil, 0o600))
	require.NoError(t, os.Truncate(f.image, 64<<20))
	e2fs(t, "mkfs.ext4", "-q", "-F", "-d", folder, f.image)
	return f
}

// do changes the image by commands of debugfs, and writes the blocks that differ to the device.
func (f *fileSystem) do(t *testing.T, commands ...string) {
	t.Helper()
	before, err := os.ReadFile(f.image)
	require.NoError(t, err)
	for _, c := range commands {
		e2fs(t, "debugfs", "-w", "-R", c, f.image)
	}
	e2fs(t, "e2fsck", "-fn", f.image)
	after, err := os.ReadFile(f.image)
	require.NoError(t, err)
	for at := 0; at < len(after); at += volume.BlockSize {
		block := after[at:][:volume.BlockSize]
		if commands != nil && string(block) == string(before[at:][:volume.BlockSize]) {
			continue
		}
		_, err := f.device.WriteAt(block, int64(at))
		require.NoError(t, err)
	}
}

// file is the content of one of the image's files.
func file(t *testing.T, image, name string) string {
	t.Helper()
	return e2fs(t, "debugfs", "-R", "cat "+name, image)
}

// A volume's ext4 comes back whole without its free blocks, also after a base in which a block was free that a file has
// now, with what was in it.
func TestArchiveCreate_Ext4_ComesBackWithoutItsFreeBlocks(t *testing.T) {
	t.Parallel()
	fs := newFileSystem(t)
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 20})
	require.NoError(t, p.bed.Objects.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: prod, TiKV: 1, Version: "v8.5.0", RaftLogVolume: true, WALVolume: true,
	})))
	_, err := p.bed.AwaitCluster(t.Context(), prod)
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
	// archive archives a new backup, and returns what became of the volume with the file system.
	archive := func(backup string) (id string, of report.ArchivedVolume) {
		do(&struct{}{}, "backup", prod.String(), "--name", backup)
		var made struct {
			Archive string
			Report  report.Report
		}
		do(&made, "archive", "create", backup)
		for _, v := range made.Report.Archived.Volumes {
			if v.Role == cluster.RoleWAL {
				return made.Archive, v
			}
			require.Contains(t, v.FreeUnknown, "no ext4", v.Role)
		}
		require.Fail(t, "no volume has the file system")
		return "", of
	}
	do(&struct{}{}, "backup", prod.String(), "--name", "earlier")
	for _, s := range p.bed.EC2.Snapshots() {
		fs.device, err = p.bed.EC2.Device(cluster.VolumeID(s.Tags[ebs.TagVolumeOf+string(cluster.RoleWAL)]))
		require.NoError(t, err)
	}
	back, kept := file(t, fs.image, "back"), file(t, fs.image, "kept")
	inode := strings.Fields(e2fs(t, "debugfs", "-R", "stat back", fs.image))[1]
	fs.do(t)
	fs.do(t, "rm back", "rm gone")
	first, of := archive("first")
	require.Empty(t, of.FreeUnknown)
	require.Greater(t, of.FreeBytes, int64(len(back)), "both files that are gone")

	fs.do(t, "undel <"+inode+"> back")
	second, of := archive("second")
	require.Equal(t, "snapshot", of.Compared)
	require.Greater(t, of.ReadBytes, int64(len(back)-2*volume.BlockSize), "though it did not change")
	store := p.storage(t, "s3://"+testbed.Bucket+"/archive")
	for _, prefix := range []string{format.PackPrefix, format.SegmentPrefix} {
		lost, err := store.List(t.Context(), prefix)
		require.NoError(t, err)
		for _, o := range lost {
			require.NoError(t, store.Delete(t.Context(), o.Key))
		}
	}
	var repaired struct {
		Replaced int
		Left     []any
	}
	do(&repaired, "archive", "repair", "--level", "objects", "--from-snapshots")
	require.Equal(t, 2, repaired.Replaced)
	for _, id := range []string{first, second} {
		dir := t.TempDir()
		do(&struct{}{}, "archive", "restore", id, "--to-dir", dir)
		found, err := filepath.Glob(filepath.Join(dir, "*"+string(cluster.RoleWAL)+".img"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NoError(t, os.Truncate(found[0], 64<<20))
		e2fs(t, "e2fsck", "-fn", found[0])
		require.Equal(t, kept, file(t, found[0], "kept"))
		if id == second {
			require.Equal(t, back, file(t, found[0], "back"))
		}
	}
	do(&struct{}{}, "archive", "verify")
}
