package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// What was encrypted stays so, and a token is of one repository, archive, run and volume.
func TestArchiveSnapshots_Describe(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	m := &snapshotMaker{
		readArchive: readArchive{l.open(t), "one", anArchive("nightly", 1)},
		sources:     map[cluster.SnapshotID]manifest.Snapshot{"snap-1": {Volume: "vol-1", Encrypted: true}},
	}
	secret := m.describe(4, format.Volume{Role: "data", Source: "snap-1"})
	require.True(t, secret.Encrypted)
	require.Equal(t, "vol-1", secret.Tags[ebs.TagVolumeOf+"data"])
	require.NotContains(t, secret.Tags, ebs.TagRun, "gc deletes by it")
	open := m.describe(4, format.Volume{Role: "data", Source: "snap-2"})
	require.False(t, open.Encrypted)
	require.Equal(t, secret.Token, open.Token)
	require.NotEqual(t, open.Token, m.describe(5, format.Volume{Role: "data"}).Token)
	require.NotEqual(t, open.Token, m.describe(4, format.Volume{Role: "wal"}).Token)
	m.flags = snapshotFlags{run: "again", kmsKey: "arn"}
	again := m.describe(4, format.Volume{Role: "data", Source: "snap-2"})
	require.NotEqual(t, open.Token, again.Token)
	require.True(t, again.Encrypted)
}

func TestArchiveRestore_WrongFlags_Refused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "--to-dir x --to-snapshots", "--to-dir x --run-id a", "--to-dir x --kms-key k", "--to-snapshots --run-id A_",
	} {
		code, _, stderr := run(t, append([]string{"archive", "restore", "latest"}, strings.Fields(args)...)...)
		require.Equal(t, ExitCode(2), code, "%s: %s", args, stderr)
	}
}

// A snapshot of an imported volume is found by its archive, and by no backup.
func TestDescribe_Import_IsOfNoBackup(t *testing.T) {
	t.Parallel()
	m := &snapshotMaker{readArchive: readArchive{newArchiveLab(t).open(t), "one", anArchive("nightly", 1)}}
	v := format.Volume{Role: "data", Source: "/dev/nvme1n1"}
	require.Equal(t, "nightly", m.describe(4, v).Tags[ebs.TagBackup])
	m.archive = &format.Archive{Backup: "nightly", Manifest: format.NewManifest(nil)}
	tags := m.describe(4, v).Tags
	require.NotContains(t, tags, ebs.TagBackup)
	require.Equal(t, "one", tags[ebs.TagArchive])
}
