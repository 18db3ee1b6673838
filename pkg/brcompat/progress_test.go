package brcompat

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/phase"
)

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The Operator reads the file each second: it is there at once, renewed within a second, replaced as a whole, and 100 only of
// a run that has done everything.
func TestProgress_FileIsRenewedEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "progress.txt")
		p := newProgress(t.Context(), path, zap.NewNop(), map[string]float64{"a": 1, "b": 3})
		require.Equal(t, "0.00", content(t, path))
		p.Emit(phase.Event{Type: phase.StepFinished, Step: "a"})
		p.Emit(phase.Event{Type: phase.Progress, Step: "b", Done: 1, Total: 2})
		<-time.After(progressInterval + time.Millisecond)
		synctest.Wait()
		require.Equal(t, "62.50", content(t, path))

		require.NoError(t, os.Remove(path))
		old, err := os.Create(path)
		require.NoError(t, err)
		_, err = old.WriteString("of the second before")
		require.NoError(t, err)
		p.Emit(phase.Event{Type: phase.StepFinished, Step: "b"})
		p.Emit(phase.Event{Type: phase.Progress, Step: "b", Done: 0, Total: 2})
		<-time.After(progressInterval)
		synctest.Wait()
		require.Equal(t, "99.99", content(t, path), "it never falls, and all steps are not yet the run")
		kept := make([]byte, 64)
		n, err := old.ReadAt(kept, 0)
		require.Error(t, err, "at its end")
		require.Equal(t, "of the second before", string(kept[:n]), "who has the file open reads it as it was")
		require.NoError(t, old.Close())

		p.close(true)
		require.Equal(t, "100.00", content(t, path))
		files, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, files, 1, "%v", files)
	})
}

func TestProgress_FileCannotBeWritten_WarnsOnceAndFailsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen, logs := observer.New(zap.WarnLevel)
		p := newProgress(t.Context(), filepath.Join(t.TempDir(), "no", "folder"), zap.New(seen), map[string]float64{"a": 1})
		<-time.After(3 * progressInterval)
		synctest.Wait()
		p.close(true)
		require.Equal(t, 1, logs.Len())
	})
}
