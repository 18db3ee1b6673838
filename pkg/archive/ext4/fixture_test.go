package ext4_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

var update = flag.Bool("update", false, "write testdata, by e2fsprogs")

// fixtures are the layouts of the images in testdata, for what has to be tested without e2fsprogs.
func fixtures() map[string][]string {
	return map[string][]string{
		"sums":    {"-b", "1024"},
		"no-sums": {"-b", "1024", "-O", "^metadata_csum,^uninit_bg,^64bit"},
		"groups":  {"-b", "4096", "-g", "1024", "-O", "^metadata_csum,uninit_bg,^resize_inode"},
		"copies":  {"-b", "1024", "-g", "1024", "-O", "^metadata_csum,uninit_bg,^64bit"},
	}
}

// fixture is an image and one of the same file system after some files were deleted and others were written.
type fixture struct{ before, after string }

// makeFixture makes a pair of images.
func makeFixture(t *testing.T, seed uint64, options ...string) fixture {
	t.Helper()
	folder := files(t, seed)
	made := fixture{before: makeImage(t, 32, folder, options...)}
	made.after = mask(t, made.before, nil)
	var commands []string
	for i, name := range slices.Sorted(maps.Keys(content(t, folder))) {
		if i%2 == 0 {
			commands = append(commands, "rm "+name)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, bytes.Repeat([]byte("large"), 800_000), 0o600))
	for i := range 3 {
		commands = append(commands, "write "+large+" large"+strconv.Itoa(i))
	}
	debugfs(t, made.after, commands...)
	return made
}

// load unpacks a pair of testdata.
func load(t testing.TB, name string) fixture {
	t.Helper()
	unpack := func(kind string) string {
		packed, err := os.ReadFile(filepath.Join("testdata", name+"-"+kind+".img.zst"))
		require.NoError(t, err)
		d, err := zstd.NewReader(nil)
		require.NoError(t, err)
		defer d.Close()
		raw, err := d.DecodeAll(packed, nil)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), kind)
		writeSparse(t, path, raw)
		return path
	}
	return fixture{before: unpack("before"), after: unpack("after")}
}

// What testdata's images have free is what dumpe2fs printed when they were made.
func TestRead_Fixtures_AsRecorded(t *testing.T) {
	t.Parallel()
	record := filepath.Join("testdata", "free.json")
	if *update {
		writeFixtures(t, record)
	}
	var want map[string][2][]int64
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want, len(fixtures()))
	for name := range fixtures() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := load(t, name)
			m, before := read(t, f.before)
			require.Empty(t, m.Reason())
			require.Equal(t, want[name][0], before)
			_, after := read(t, f.after)
			require.Equal(t, want[name][1], after)
			require.False(t, m.Free(-1))
			require.False(t, m.Free(32<<20/ext4.BlockSize))
		})
	}
}

func writeFixtures(t *testing.T, record string) {
	t.Helper()
	free := map[string][2][]int64{}
	for name, options := range fixtures() {
		f := makeFixture(t, 5, options...)
		for kind, path := range map[string]string{"before": f.before, "after": f.after} {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
			require.NoError(t, err)
			packed := filepath.Join("testdata", name+"-"+kind+".img.zst")
			require.NoError(t, os.WriteFile(packed, e.EncodeAll(raw, nil), 0o600))
		}
		free[name] = [2][]int64{freeBlocks(t, f.before), freeBlocks(t, f.after)}
	}
	text, err := json.MarshalIndent(free, "", "")
	require.NoError(t, err)
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(",\n"), []byte(",")), []byte("[\n"), []byte("["))
	require.NoError(t, os.WriteFile(record, append(text, '\n'), 0o600))
}
