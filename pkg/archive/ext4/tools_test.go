package ext4_test

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// required is the variable that make test-archive sets when it has installed all tools.
const required = "TISNAP_TEST_EXT4"

// tool runs one of e2fsprogs' programs, and skips the test if it is not installed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := command(t, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %q: %s", name, args, text)
	return string(text)
}

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path := filepath.Join(folder, name); isFile(path) {
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env = append(os.Environ(), "LC_ALL=C", "E2FSPROGS_FAKE_TIME=1700000000", "MKE2FS_DEVICE_SECTSIZE=512")
			return cmd
		}
	}
	if os.Getenv(required) != "" {
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed; make test-archive installs it", name)
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// files makes a folder with files of many sizes.
func files(t *testing.T, seed uint64) string {
	t.Helper()
	root, random := t.TempDir(), rand.New(rand.NewPCG(seed, 1))
	for i := range 120 {
		name := filepath.Join(root, strconv.Itoa(i%7), strconv.Itoa(i))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		content := bytes.Repeat([]byte{byte(i), byte(seed), 1}, 1+random.IntN(1<<(9+random.IntN(11))))
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
	return root
}

// content returns all regular files below a folder.
func content(t *testing.T, root string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		out[path], err = os.ReadFile(filepath.Join(root, path))
		return err
	}))
	return out
}

// requireSame compares the files of two folders.
func requireSame(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		require.True(t, bytes.Equal(want[name], got[name]), "%s differs", name)
	}
}

// makeImage makes a file system with the files of a folder, some of which are then deleted.
func makeImage(t *testing.T, mib int64, folder string, options ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, mib<<20))
	tool(t, "mkfs.ext4", append(slices.Clone(options), "-q", "-F", "-d", folder, path)...)
	var remove []string
	for name := range content(t, folder) {
		if n, err := strconv.Atoi(filepath.Base(name)); err == nil && n%3 == 0 {
			remove = append(remove, "rm "+name)
			require.NoError(t, os.Remove(filepath.Join(folder, name)))
		}
	}
	debugfs(t, path, remove...)
	tool(t, "e2fsck", "-fn", path)
	return path
}

// debugfs runs commands of debugfs on an image.
func debugfs(t *testing.T, path string, commands ...string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte(strings.Join(commands, "\n")+"\n"), 0o600))
	tool(t, "debugfs", "-w", "-f", script, path)
}

// freeBlocks asks dumpe2fs which blocks of 512 KiB are wholly free. It does not replay the journal.
func freeBlocks(t *testing.T, path string) []int64 {
	t.Helper()
	size, free := int64(0), map[int64]int64{} // bytes of each block of 512 KiB
	for line := range strings.Lines(tool(t, "dumpe2fs", path)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if name == "Block size" {
			size, _ = strconv.ParseInt(value, 10, 64)
		}
		if name != "Free blocks" || !strings.HasPrefix(line, " ") || value == "" {
			continue
		}
		for part := range strings.SplitSeq(value, ", ") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, err := strconv.ParseInt(first, 10, 64)
			require.NoError(t, err, line)
			to, err := strconv.ParseInt(last, 10, 64)
			require.NoError(t, err, line)
			for b := from; b <= to; b++ {
				free[b*size/ext4.BlockSize] += size
			}
		}
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	var out []int64
	for b, n := range free {
		if n == min(ext4.BlockSize, info.Size()-b*ext4.BlockSize) {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return out
}

// read returns the map of an image and its free blocks.
func read(t *testing.T, path string) (*ext4.Map, []int64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	info, err := f.Stat()
	require.NoError(t, err)
	m, err := ext4.Read(t.Context(), f, info.Size())
	require.NoError(t, err)
	var free []int64
	for b := range info.Size()/ext4.BlockSize + 2 {
		if m.Free(b) {
			free = append(free, b)
		}
	}
	require.EqualValues(t, len(free), m.Count())
	return m, free
}

// writeSparse writes a file with holes where content has zeros.
func writeSparse(t testing.TB, path string, content []byte) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	zeros, at := make([]byte, 4<<10), int64(0)
	for part := range slices.Chunk(content, len(zeros)) {
		if !bytes.Equal(part, zeros[:len(part)]) {
			_, err := f.WriteAt(part, at)
			require.NoError(t, err)
		}
		at += int64(len(part))
	}
	require.NoError(t, f.Truncate(at))
	require.NoError(t, f.Close())
}

// mask writes zeros, as a restore has them, in place of the free blocks of a copy of an image.
func mask(t *testing.T, path string, free []int64) string {
	t.Helper()
	masked := filepath.Join(t.TempDir(), "masked")
	out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", path, masked).CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	f, err := os.OpenFile(masked, os.O_RDWR, 0)
	require.NoError(t, err)
	for _, b := range free {
		zeros := make([]byte, min(ext4.BlockSize, info.Size()-b*ext4.BlockSize))
		_, err := f.WriteAt(zeros, b*ext4.BlockSize)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return masked
}

// dump gives the files of an image.
func dump(t *testing.T, path string) map[string][]byte {
	t.Helper()
	folder := t.TempDir()
	tool(t, "debugfs", "-R", "rdump / "+folder, path)
	out := content(t, folder)
	maps.DeleteFunc(out, func(name string, _ []byte) bool { return strings.HasPrefix(name, "lost+found") })
	return out
}
