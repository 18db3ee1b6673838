package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
)

// The figures of every level are for all of the data, and a level that shrinks it costs less each month.
func TestArchiveBench(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "data.img")
	data := bytes.Repeat([]byte("rows of a table that compresses well; "), 8<<20/38)
	noise := make([]byte, 2<<20)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(image, append(append(data, noise...), make([]byte, 4<<20)...), 0o600))

	code, out, stderr := run(t, "archive", "bench", "--file", image, "--data", "1TiB", "--cores", "4", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveBenchDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	assert.InDelta(t, 10<<20, doc.SampleBytes, 1<<20, "the zeros are left out")
	assert.EqualValues(t, 1<<40, doc.DataBytes)
	require.Len(t, doc.Items, len(codec.Levels()))
	none, fastest := doc.Items[0], doc.Items[0]
	for _, i := range doc.Items {
		assert.Positive(t, i.BytesPerSec, i.Level)
		assert.InDelta(t, float64(1<<40)/i.BytesPerSec/4, i.Seconds, 1)
		assert.InDelta(t, 0.023*float64(i.Stored)/(1<<30), *i.MonthUSD, 0.01)
		if i.Level == codec.ZstdFastest {
			fastest = i
		}
	}
	assert.InDelta(t, 1, none.Ratio, 0.01)
	assert.InDelta(t, 5, fastest.Ratio, 1, "four fifths of it compress")

	code, out, stderr = run(t, "archive", "bench", "--file", image)
	require.Equal(t, ExitDone, code, stderr)
	for _, line := range strings.Split(out, "\n")[1:] {
		assert.LessOrEqual(t, len(line), narrow, line)
	}
	assert.Regexp(t, `(?m)^zstd:fastest +[45]\.\d\d +\d+ +\d`, out)
}

func TestArchiveBench_NothingToMeasure_IsUsage(t *testing.T) {
	t.Parallel()
	zeros := filepath.Join(t.TempDir(), "zeros.img")
	require.NoError(t, os.WriteFile(zeros, make([]byte, 1<<20), 0o600))
	for name, args := range map[string][]string{
		"zeros": {"--file", zeros}, "no file": {"--file", zeros + "x"}, "no size": {"--file", zeros, "--sample", "0"},
		"no cores": {"--file", zeros, "--cores", "0"}, "no flag": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, append([]string{"archive", "bench"}, args...)...)
			assert.EqualValues(t, 2, code, stderr)
		})
	}
}
