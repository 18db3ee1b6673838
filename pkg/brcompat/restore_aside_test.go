package brcompat_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

// Whatever a `restore full --prepare` fails of, the document of an earlier Restore's volumes is away by then: TiDB Operator
// deletes the volumes that are named in it.
// Catalogue: E16.
func TestPrepareFailsOfAnything_TheEarlierRestoresDocumentIsAway(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no backup":                {"restore", "full", "--prepare"},
		"an unknown flag":          {"restore", "full", "--volume-kind=gp3", "--prepare"},
		"a value that is none":     {"restore", "full", "--volume-iops", "many", "--prepare"},
		"a value that is refused":  {"restore", "full", "--volume-scope=9", "--prepare"},
		"a flag that is refused":   {"restore", "full", "--filter=a.*", "--prepare"},
		"a type that is refused":   {"restore", "full", "--prepare", "true", "--type=kv"},
		"a word too much":          {"restore", "full", "quickly", "--prepare"},
		"a log that cannot be":     {"restore", "full", "--log-file=/no/where/br.log", "--prepare"},
		"no certificate":           {"restore", "full", "--ca=/no/where/ca.pem", "--prepare"},
		"flags before the command": {"--log-level=loud", "restore", "full", "--prepare"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "restoremeta"), []byte("earlier"), 0o600))
			got := run(t, append(args, "--storage=local://"+dir, "--progress-file="+filepath.Join(dir, "progress.txt"))...)
			require.Equal(t, brcompat.ExitFailed, got.code)
			require.NoFileExists(t, filepath.Join(dir, "restoremeta"))
			kept, err := filepath.Glob(filepath.Join(dir, "restoremeta.*"))
			require.NoError(t, err)
			require.Len(t, kept, 1, got.stderr)
			doc, err := os.ReadFile(kept[0])
			require.NoError(t, err)
			require.Equal(t, "earlier", string(doc))
		})
	}
}

// What is no --prepare, which makes new volumes, leaves the document: the Operator binds the volumes by it.
// Catalogue: E16.
func TestNoPrepare_LeavesTheDocument(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"the data":        {"restore", "full", "--type=aws-ebs"},
		"prepare is off":  {"restore", "full", "--type=aws-ebs", "--prepare=false"},
		"the last counts": {"restore", "full", "--type=aws-ebs", "--prepare", "--prepare=false"},
		"help":            {"restore", "full", "--type=aws-ebs", "--prepare", "--help"},
		"a backup":        {"backup", "full", "--type=aws-ebs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "restoremeta"), []byte("earlier"), 0o600))
			run(t, append(args, "--storage=local://"+dir, "--log-file="+filepath.Join(dir, "log"))...)
			require.FileExists(t, filepath.Join(dir, "restoremeta"))
		})
	}
}

// One that cannot be set aside does not end the run, as the Operator would delete the volumes then; if the run fails, its
// error reports it.
// Catalogue: E16.
func TestDocumentStays_ErrorExplainsWhatTheOperatorDoesWithIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"restore", "full", "--prepare", "--type=aws-ebs", "--storage=local://" + dir, "--log-file=" + filepath.Join(dir, "log")}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "restoremeta"), []byte("earlier"), 0o600))
	run(t, args...)
	kept, err := filepath.Glob(filepath.Join(dir, "restoremeta.*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, os.WriteFile(kept[0], []byte("another's"), 0o600)) // its place is taken
	require.NoError(t, os.WriteFile(filepath.Join(dir, "restoremeta"), []byte("earlier"), 0o600))
	got := run(t, args...)
	require.Equal(t, brcompat.ExitFailed, got.code)
	require.FileExists(t, filepath.Join(dir, "restoremeta"), "it is not deleted before it is kept")
	require.Contains(t, got.stderr, "there is no backupmeta")
	require.Contains(t, got.stderr, "set aside restoremeta")
	require.Contains(t, got.stderr, "delete it before TiDB Operator deletes the earlier Restore's volumes")
}
