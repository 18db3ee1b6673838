package objstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// LockFolder takes a file store's lock as another process would, until release is called.
func LockFolder(t *testing.T, root string) (release func()) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	held, err := tryLock(lock)
	require.NoError(t, err)
	require.True(t, held)
	return func() { require.NoError(t, lock.Close()) }
}
