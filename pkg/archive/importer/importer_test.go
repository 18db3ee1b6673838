package importer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/importer"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

const block = volume.BlockSize

// An import gives back what it read, of any length, and leaves nothing but the archive and its lock.
func TestRun_FilesAndStandardInput_AreGivenBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4096, block - 1, block, block + 1, 16 * block, 17*block + 4096, 40*block + 12345} {
		l := newLab(t)
		first, piped := content(1, size), content(2, size)
		result, err := l.run(t, options("disk", inFile(t, first), importer.Stdin), piped...)
		require.NoError(t, err, "%d bytes", size)
		require.True(t, result.Committed)
		require.False(t, result.Continued)
		l.requireIs(t, result.Archive, 0, first)
		l.requireIs(t, result.Archive, 1, piped)
		require.EqualValues(t, size, result.Volumes[1].Size)
		require.EqualValues(t, len(l.keys(t, format.PackPrefix)), result.Packs)
		require.Empty(t, l.keys(t, format.LeasePrefix))
		require.Empty(t, l.keys(t, format.UnitPrefix))
		a, err := l.Archive(t.Context(), result.Archive)
		require.NoError(t, err)
		require.Equal(t, "disk", a.Backup)
		require.Equal(t, importer.Stdin, a.Stores[0].Volumes[1].Source)
		require.EqualValues(t, size, a.Stores[0].Volumes[1].Size)
	}
}

func TestRun_SparseFile_StoresItsData(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := inFile(t, nil)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(300*block+777))
	_, err = file.WriteAt([]byte("data"), 200*block)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	result, err := l.run(t, options("disk", path))
	require.NoError(t, err)
	require.EqualValues(t, 300, result.Volumes[0].Zero)
	require.EqualValues(t, 1, result.Volumes[0].Packed)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	l.requireIs(t, result.Archive, 0, want)
}

// A later import of the name stores what changed, whatever became of the size; with no base it stores all.
func TestRun_Again_StoresWhatChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 30*block)
	first, err := l.run(t, options("disk", importer.Stdin), data...)
	require.NoError(t, err)
	require.Empty(t, first.Base)
	_, err = l.run(t, options("other", importer.Stdin), content(9, block)...)
	require.NoError(t, err)

	changed := append(bytes.Clone(data[:20*block]), "more"...)
	changed[5*block] ^= 1
	for _, from := range []string{importer.Stdin, inFile(t, changed)} {
		second, err := l.run(t, options("disk", from), changed...)
		require.NoError(t, err)
		require.NotEmpty(t, second.Base)
		require.True(t, second.Volumes[0].Compared)
		if from == importer.Stdin {
			require.Equal(t, first.Archive, second.Base)
			require.EqualValues(t, 2, second.Volumes[0].Packed)
			require.EqualValues(t, 14, second.Volumes[0].Unchanged)
		} else {
			require.Zero(t, second.Volumes[0].Packed)
			require.Zero(t, second.Packs)
		}
		l.requireIs(t, second.Archive, 0, changed)
	}
	o := options("disk", importer.Stdin)
	o.Base = importer.NoBase
	whole, err := l.run(t, o, data...)
	require.NoError(t, err)
	require.EqualValues(t, 23, whole.Volumes[0].Packed)
	o.Base = "none-such"
	_, err = l.run(t, o, data...)
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
}

// A source that fails in the middle makes no archive, and the same request continues.
func TestRun_SourceFails_CommitsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40*block)
	stored := make(chan struct{}) // two packs are
	begun := 0
	l.objects.hook(func(key string) error {
		if isPack(key) {
			if begun++; begun == 3 { // of one upload at a time
				close(stored)
			}
		}
		return nil
	})
	fails := io.MultiReader(bytes.NewReader(data[:30*block+5]), failing{stored})
	result, err := importer.Run(t.Context(), importer.Deps{Repository: l.Repository, Stdin: fails}, options("disk", importer.Stdin))
	require.ErrorIs(t, err, errBroken)
	require.False(t, result.Committed)
	require.Empty(t, l.keys(t, format.ArchivePrefix))
	require.NotZero(t, result.Packs)

	again, err := l.run(t, options("disk", importer.Stdin), data...)
	require.NoError(t, err)
	require.True(t, again.Continued)
	require.Equal(t, result.Archive, again.Archive)
	require.NotZero(t, again.Volumes[0].Repeated, "what is stored is not stored again")
	require.EqualValues(t, 30, again.Volumes[0].Packed+again.Volumes[0].Repeated)
	l.requireIs(t, again.Archive, 0, data)
}

var (
	errBroken = errors.New("it broke")
	errDenied = failure.New(failure.Denied, "", "", "it is denied") // which is not tried again
)

// failing breaks once a channel is closed.
type failing struct{ when <-chan struct{} }

func (f failing) Read([]byte) (int, error) {
	<-f.when
	return 0, errBroken
}

// stopAfter has the store fail from the pack of this number on, as for a process that is killed.
func (l *lab) stopAfter(packs int) {
	stored := 0
	l.objects.hook(func(key string) error {
		if isPack(key) {
			stored++
		}
		if stored > packs {
			return errBroken
		}
		return nil
	})
}

// What is stored of a file that did not change is not read again; of one that did it is, and only what changed is stored.
func TestRun_Killed_TheSameRequestContinues(t *testing.T) {
	t.Parallel()
	for _, changes := range []bool{false, true} {
		l := newLab(t)
		data := content(1, 60*block)
		o := options("disk", inFile(t, data), inFile(t, content(2, 9*block)))
		l.stopAfter(6)
		died, err := l.run(t, o)
		require.ErrorIs(t, err, errBroken)
		require.EqualValues(t, 6, died.Packs)
		l.objects.hook(nil)
		require.Empty(t, l.keys(t, format.ArchivePrefix))
		require.Len(t, l.keys(t, format.LeasePrefix), 1)
		if changes {
			for i := 0; i < 60; i += 4 { // in each pack, whichever were stored
				data[i*block] ^= 1
			}
			require.NoError(t, os.WriteFile(o.Sources[0].Path, data, 0o600))
		}
		again, err := l.run(t, o)
		require.NoError(t, err)
		require.Equal(t, died.Archive, again.Archive)
		require.True(t, again.Continued)
		if first := again.Volumes[0]; changes {
			require.NotZero(t, first.Repeated)
			require.Less(t, first.Repeated, int64(6*perPack))
		} else {
			require.Zero(t, first.Repeated, "nothing is read that is stored")
			require.EqualValues(t, 45, first.Packed)
			require.Less(t, again.StoredBytes, int64((45-5*perPack+7+1)*(block+1000)))
		}
		l.requireIs(t, again.Archive, 0, data)
		l.requireIs(t, again.Archive, 1, content(2, 9*block))
		require.Empty(t, l.keys(t, format.UnitPrefix))
		require.Empty(t, l.keys(t, format.LeasePrefix))
	}
}

// A process that dies between the commit and the end of its lease has made its archive: the same command makes another
// one, and leaves nothing of the first one's making.
func TestRun_DiedBehindTheCommit_ItsMakingIsEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	o := options("disk", inFile(t, content(1, 5*block)))
	died := failure.New(failure.Usage, "", "", "it died") // which is not tried again, and not left to prunes
	l.objects.hook(func(key string) error {
		if strings.HasPrefix(key, "delete "+format.LeasePrefix) {
			return died
		}
		return nil
	})
	first, err := l.run(t, o)
	require.ErrorIs(t, err, died)
	require.True(t, first.Committed)
	require.Len(t, l.keys(t, format.LeasePrefix), 1)
	l.objects.hook(nil)
	again, err := l.run(t, o)
	require.NoError(t, err)
	require.False(t, again.Continued)
	require.Equal(t, first.Archive, again.Base)
	require.Zero(t, again.Packs)
	require.Empty(t, l.keys(t, format.LeasePrefix))
	require.Empty(t, l.keys(t, format.UnitPrefix))
	l.requireIs(t, first.Archive, 0, content(1, 5*block))
}

// An import by a name that only begins the same is another one's matter, whatever its record is.
func TestRun_NameBeginsTheSame_IsNotLookedAt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := lease.Write(t.Context(), l.objects, "disk-2-01234567", "another")
	require.NoError(t, err)
	_, err = l.objects.Create(t.Context(), format.UnitPrefix+"disk-2-01234567/import", []byte("damaged"))
	require.NoError(t, err)
	_, err = l.run(t, options("disk", importer.Stdin), 1)
	require.NoError(t, err)
	_, err = l.run(t, options("disk-2", importer.Stdin), 1)
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
}

// Another request of the name is another import, and leaves the unfinished one to prunes.
func TestRun_AnotherRequest_IsAnotherImport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.stopAfter(2)
	died, err := l.run(t, options("disk", inFile(t, content(1, 40*block))))
	require.ErrorIs(t, err, errBroken)
	l.objects.hook(nil)
	data := content(3, 5*block)
	other, err := l.run(t, options("disk", inFile(t, data)))
	require.NoError(t, err)
	require.NotEqual(t, died.Archive, other.Archive)
	require.False(t, other.Continued)
	l.requireIs(t, other.Archive, 0, data)

	kept := l.prune(t, false)
	require.Zero(t, kept.Deleted.Packs, "its lease protects it")
	report := l.prune(t, true)
	require.Len(t, report.Broken, 1)
	require.EqualValues(t, 2, report.Deleted.Packs)
	require.Len(t, l.keys(t, format.PackPrefix), int(other.Packs))
	l.prune(t, true)
	require.Empty(t, l.keys(t, format.UnitPrefix), "what it recorded is gone, too")
	l.requireIs(t, other.Archive, 0, data)
}

// Prunes at any time of an import delete nothing that it has stored, also while it is stopped.
func TestRun_PrunesMeanwhile_KeepWhatItStored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	base := content(1, 40*block)
	first, err := l.run(t, options("disk", importer.Stdin), base...)
	require.NoError(t, err)
	data := bytes.Clone(base)
	for i := range 20 {
		data[i*block+7] ^= 1
	}
	path := inFile(t, data)
	l.objects.hook(func(key string) error {
		if isPack(key) {
			l.prune(t, false)
		}
		if strings.HasPrefix(key, format.ArchivePrefix) {
			return errDenied
		}
		return nil
	})
	o := options("disk", path)
	o.Base = first.Archive
	_, err = l.run(t, o)
	require.ErrorIs(t, err, errDenied)
	l.objects.hook(nil)
	l.prune(t, false)
	again, err := l.run(t, o)
	require.NoError(t, err)
	require.Zero(t, again.StoredBytes, "all was stored")
	l.prune(t, false)
	l.requireIs(t, again.Archive, 0, data)
	l.requireIs(t, first.Archive, 0, base)
}

// What a prune condemned before the import's lease is stored again, although the base has it.
func TestRun_BaseIsCondemned_StoresAll(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 8*block)
	first, err := l.run(t, options("disk", importer.Stdin), data...)
	require.NoError(t, err)
	var packs []lease.Object
	for _, key := range l.keys(t, format.PackPrefix) {
		packs = append(packs, lease.Object{Key: key, Size: 1})
	}
	require.NoError(t, lease.Condemn(t.Context(), l.objects, packs))
	second, err := l.run(t, options("disk", importer.Stdin), data...)
	require.NoError(t, err)
	require.Equal(t, first.Archive, second.Base)
	require.False(t, second.Volumes[0].Compared)
	require.Equal(t, first.Packs, second.Packs)
	for _, o := range packs {
		require.NoError(t, l.objects.Delete(t.Context(), o.Key))
	}
	l.requireIs(t, second.Archive, 0, data)
}

// After its lease was broken an import cannot be committed, and the same request starts from scratch.
func TestRun_LeaseBroken_StartsFromScratch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 20*block)
	o := options("disk", inFile(t, data))
	l.objects.hook(func(key string) error {
		if isPack(key) {
			l.prune(t, true)
		}
		return nil
	})
	_, err := l.run(t, o)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	l.objects.hook(nil)
	ids, err := l.Archives(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
	again, err := l.run(t, o)
	require.NoError(t, err)
	require.False(t, again.Continued)
	l.prune(t, true)
	l.requireIs(t, again.Archive, 0, data)
}

// A file that changes while it is read is no volume of any time.
func TestRun_FileChanges_Conflict(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) error{
		"written": func(path string) error { return os.WriteFile(path, content(5, 20*block), 0o600) },
		"longer":  func(path string) error { return os.Truncate(path, 21*block) },
		"shorter": func(path string) error { return os.Truncate(path, 19*block) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			path := inFile(t, content(1, 20*block))
			require.NoError(t, os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)))
			done := false
			l.objects.hook(func(key string) error {
				if isPack(key) && !done {
					done = true
					return change(path)
				}
				return nil
			})
			_, err := l.run(t, options("disk", path))
			require.Error(t, err)
			if name != "shorter" { // which the read may notice first
				require.True(t, failure.Is(err, failure.Conflict), "%v", err)
				require.ErrorContains(t, err, "it was changed while it was read")
			}
			require.Empty(t, l.keys(t, format.ArchivePrefix))
		})
	}
}

// Only one process imports by a name at a time.
func TestRun_TwoAtATime_TheSecondIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	read, write := io.Pipe()
	began := make(chan struct{})
	l.objects.hook(func(key string) error {
		if strings.HasPrefix(key, format.UnitPrefix) && strings.Contains(key, "processes/") {
			close(began)
		}
		return nil
	})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := importer.Run(ctx, importer.Deps{Repository: l.Repository, Stdin: read}, options("disk", importer.Stdin))
		ended <- err
	}()
	<-began
	l.objects.hook(nil)
	_, err := l.run(t, options("disk", importer.Stdin), 1)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	other, err := l.run(t, options("other", importer.Stdin), 1)
	require.NoError(t, err)
	require.True(t, other.Committed)
	cancel() // although standard input has nothing
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, write.Close())
	_, err = l.run(t, options("disk", importer.Stdin), 1)
	require.NoError(t, err, "the lock is free")
}

func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	path := inFile(t, content(1, block))
	sized := options("disk", importer.Stdin)
	sized.StdinSize = 5
	unasked := options("disk", path)
	unasked.StdinSize = 5
	twice := options("disk", path, inFile(t, []byte("x")))
	twice.Sources[1].Role = twice.Sources[0].Role
	slash := options("disk", path)
	slash.Sources[0].Role = "a/b"
	for name, row := range map[string]struct {
		options importer.Options
		stdin   string
		kind    failure.Kind
		want    string
	}{
		"no source":          {options("disk"), "", failure.Usage, "0 sources"},
		"no name":            {options("a/b", path), "", failure.Usage, "a name is"},
		"latest":             {options("latest", path), "", failure.Usage, "the newest one of all"},
		"a path twice":       {options("disk", path, path), "", failure.Usage, "named twice"},
		"a volume twice":     {twice, "", failure.Usage, "1/v0 is named twice"},
		"role":               {slash, "", failure.Usage, "the role of"},
		"size of no stdin":   {unasked, "", failure.Usage, "no source is standard input"},
		"none there":         {options("disk", path+"no"), "", failure.Usage, "no such file"},
		"folder":             {options("disk", t.TempDir()), "", failure.Usage, "no file or block device"},
		"empty file":         {options("disk", inFile(t, nil)), "", failure.Usage, "it is empty"},
		"empty input":        {options("disk", importer.Stdin), "", failure.Usage, "it is empty"},
		"input is too short": {sized, "1234", failure.Corrupt, "ended after 4 bytes, not 5"},
		"input is too long":  {sized, "123456", failure.Corrupt, "it has more than 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, err := l.run(t, row.options, []byte(row.stdin)...)
			require.True(t, failure.Is(err, row.kind), "%v", err)
			require.ErrorContains(t, err, row.want)
			require.Empty(t, l.keys(t, format.ArchivePrefix))
		})
	}
}

func TestRun_InputHasTheSizeThatIsGiven_IsArchived(t *testing.T) {
	t.Parallel()
	o := options("disk", importer.Stdin)
	o.StdinSize = 4
	_, err := newLab(t).run(t, o, []byte("1234")...)
	require.NoError(t, err)
}

// What does not end is not read for ever if its size is given.
func TestRun_InputDoesNotEnd_IsReadToItsSize(t *testing.T) {
	t.Parallel()
	o := options("disk", importer.Stdin)
	o.StdinSize = 3*block + 7
	var endless counted
	_, err := importer.Run(t.Context(), importer.Deps{Repository: newLab(t).Repository, Stdin: &endless}, o)
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.EqualValues(t, o.StdinSize+1, endless)
}

// counted is how much was read of what ends after 1 GiB, so that a test that fails ends.
type counted int64

func (c *counted) Read(into []byte) (int, error) {
	if *c > 1<<30 {
		return 0, io.EOF
	}
	*c += counted(len(into))
	return len(into), nil
}

// A dry run reads nothing of standard input, and changes nothing.
func TestEstimate_ChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := len(l.objects.MutatingCalls())
	plan, err := importer.Estimate(t.Context(), importer.Deps{Repository: l.Repository, Stdin: failing{}},
		options("disk", inFile(t, content(1, 5*block)), importer.Stdin))
	require.NoError(t, err)
	require.EqualValues(t, 5, plan.Volumes[0].Read)
	require.Zero(t, plan.Volumes[1].Size)
	require.Len(t, l.objects.MutatingCalls(), before)
}
