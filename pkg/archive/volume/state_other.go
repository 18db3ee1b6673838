//go:build !linux

package volume

import (
	"fmt"
	"io/fs"
)

// stateOf is equal of two times at which a file was not changed; of a device it is always.
func stateOf(info fs.FileInfo) string {
	if !info.Mode().IsRegular() {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}
