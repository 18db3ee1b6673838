//go:build !unix

package objstore

import (
	"os"

	"github.com/tisnap/tisnap/pkg/failure"
)

// tryLock refuses: without flock two writers could overwrite each other.
func tryLock(*os.File) (bool, error) {
	return false, failure.New(failure.Usage, "lock folder", "", "file:// storage needs a Unix system").
		WithHint("use s3:// storage")
}
