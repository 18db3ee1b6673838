package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// emptyDevice is a file of zeros.
func emptyDevice(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, int64(size)))
	return path
}

// The device is the volume; another fill keeps it.
func TestArchiveFill_Device_IsTheVolume(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	device := emptyDevice(t, len(data))
	for _, again := range []bool{false, true} {
		code, out, stderr := l.run(t, "fill", "one-backup", "--to", "4/data="+device, "-o", "json")
		require.Equal(t, ExitDone, code, stderr)
		is, err := os.ReadFile(device)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, is))
		var doc archiveFillDoc
		require.NoError(t, json.Unmarshal([]byte(out), &doc))
		require.Equal(t, again, doc.Items[0].Written == 0)
		require.Equal(t, again, doc.Items[0].Kept > 0)
	}
	for args, want := range map[string]ExitCode{
		"fill one": 2, "fill one --to 4/data": 2, "fill one --to 4/wal=" + device: 4, "fill one --to 4/data=/none": 2,
		"fill one --to 4/data=" + device + " --to 4/data=x": 2,
	} {
		code, _, stderr := l.run(t, strings.Fields(args)...)
		require.Equal(t, want, code, "%s: %s", args, stderr)
	}
}

// A damaged block is named, and no later fill takes its volume for whole.
func TestArchiveFill_DamagedBlock_EndsWithTen(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	device := emptyDevice(t, len(l.put(t, "one", 10)))
	damage(t, l.packs(t)[0])
	for range 2 {
		code, out, stderr := l.run(t, "fill", "one", "--to", "4/data="+device, "-o", "json")
		require.Equal(t, ExitCode(10), code, stderr)
		require.Contains(t, stderr, "blocks 5 are damaged")
		require.Contains(t, out, `"error": "`)
	}
}

// Damage is not passed over for what else fails, and decides the exit code.
func TestArchiveFill_DamageAndAnotherError_BothAreNamed(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	device := emptyDevice(t, len(l.put(t, "one", 10, "log")))
	damage(t, l.packs(t)[0])
	code, _, stderr := l.run(t, "fill", "one", "--to", "4/log=/none", "--to", "4/data="+device)
	require.Equal(t, ExitCode(10), code, stderr)
	require.Contains(t, stderr, "blocks 5 are damaged")
	require.Contains(t, stderr, "/none: no such file")
}
