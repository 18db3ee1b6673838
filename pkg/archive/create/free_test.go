package create_test

import (
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
)

// fileSystem is an image of 32 MiB that ext4's tests have.
func fileSystem(t *testing.T, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("../ext4/testdata/" + name + ".img.zst")
	require.NoError(t, err)
	d, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer d.Close()
	image, err := d.DecodeAll(packed, nil)
	require.NoError(t, err)
	return image
}

// format writes an image at the beginning of a store's volume, zeros too.
func (l *lab) format(t *testing.T, store int, image []byte) {
	t.Helper()
	device, err := l.account.Device(l.source.Stores[store].Volumes[0].ID)
	require.NoError(t, err)
	_, err = device.WriteAt(image, 0)
	require.NoError(t, err)
}

// skipping archives a backup by a way to skip free blocks.
func (l *lab) skipping(t *testing.T, backup cluster.BackupID, run cluster.RunID, skip create.SkipFree) *create.Result {
	t.Helper()
	o := l.options(backup, run)
	o.SkipFree = skip
	result, err := create.Run(t.Context(), l.deps(l.open(t)), o)
	require.NoError(t, err)
	return result
}

// A volume's free blocks are not read, unless they are to be, and what another one has instead of ext4 is named. An
// archive of the same backup has what the first one left out.
func TestRun_FreeBlocks_AreLeftOutOrNot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	image := fileSystem(t, "sums-after")
	l.write(t, 0, span(0, 64)...) // old data, which the file system does not use
	l.format(t, 0, image)
	l.write(t, 1, span(0, 4)...)
	for index := range int64(len(image) / volume.BlockSize) {
		if volume.IsZero(image[index*volume.BlockSize:][:volume.BlockSize]) {
			l.write(t, 0, index)
		}
	}
	backup := l.backup(t)
	plan, err := create.Estimate(t.Context(), l.deps(l.open(t)), func() create.Options {
		o := l.options(backup, "run-0")
		o.SkipFree = create.SkipAuto
		return o
	}(), 1000)
	require.NoError(t, err)

	auto := l.skipping(t, backup, "run-1", create.SkipAuto)
	stats := sum(auto)
	require.Greater(t, stats.Free, int64(10))
	require.EqualValues(t, 68, stats.Read+stats.Free)
	require.Equal(t, plan.Blocks, stats.Read)
	require.Equal(t, plan.Free, stats.Free)
	require.Equal(t, plan.Spent.Reads, auto.Spent.Reads, "with those that find free blocks")
	require.Empty(t, auto.Volumes[0].FreeUnknown)
	require.Contains(t, auto.Volumes[1].FreeUnknown, "no ext4")
	require.EqualValues(t, 4, auto.Volumes[1].Read)

	off := l.skipping(t, backup, "run-2", create.SkipOff)
	require.Equal(t, create.WithArchive, off.Volumes[0].Compared)
	require.EqualValues(t, 64, off.Volumes[0].Read)
	require.Empty(t, off.Volumes[1].FreeUnknown)
	l.requireWhole(t, off.Archive)

	o := l.options(backup, "run-3")
	o.Base = off.Archive
	again, err := create.Run(t.Context(), l.deps(l.open(t)), o)
	require.NoError(t, err)
	require.Equal(t, create.WithItself, again.Volumes[0].Compared, "it has all blocks")
	o = l.options(backup, "run-4")
	o.SkipFree, o.Base = create.SkipAudit, create.NoBase
	audit, err := create.Run(t.Context(), l.deps(l.open(t)), o)
	require.NoError(t, err)
	require.Equal(t, stats.Free, sum(audit).Audited)
	require.Equal(t, stats.Free, sum(audit).AuditedData)
	l.requireWhole(t, audit.Archive)
}

// A block that was free in the base, and did not change since, is read once the file system uses it again, or may use
// it.
func TestRun_FreeInTheBaseAndUsedNow_IsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	image := fileSystem(t, "sums-after")
	l.write(t, 0, span(0, 64)...)
	l.format(t, 0, image)
	first := l.skipping(t, l.backup(t), "run-1", create.SkipAuto)
	free := sum(first).Free
	require.NotZero(t, free)

	image[1024+0x3a] = 2 // the file system has errors, so that nothing counts as free
	l.format(t, 0, image[:volume.BlockSize])
	second := l.skipping(t, l.backup(t), "run-2", create.SkipAuto)
	require.Equal(t, create.WithSnapshot, second.Volumes[0].Compared)
	require.NotEmpty(t, second.Volumes[0].FreeUnknown)
	require.EqualValues(t, free+1, second.Volumes[0].Read, "one changed")
	l.requireWhole(t, second.Archive)
}

// A run that is resumed finds the free blocks again.
func TestRun_StoppedWhileItSkips_Resumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 64)...)
	l.format(t, 0, fileSystem(t, "sums-after"))
	l.write(t, 1, span(100, 20)...)
	backup := l.backup(t)
	o := l.options(backup, "run-1")
	o.SkipFree = create.SkipAuto
	l.stopped(t, 30, o)
	resumed, err := create.Run(t.Context(), l.deps(l.open(t)), o)
	require.NoError(t, err)
	stats := sum(resumed)
	require.NotZero(t, stats.Free)
	require.EqualValues(t, 84, stats.Read+stats.Free)
}

// A run is not resumed by a command that has free blocks read, or left out.
func TestRequest_AnotherWayToSkip_IsAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var o create.Options
	byDefault := o.Request(l.repo)
	o.SkipFree = create.SkipAuto
	require.Equal(t, byDefault, o.Request(l.repo))
	o.SkipFree = create.SkipOff
	require.NotEqual(t, byDefault, o.Request(l.repo))
}
