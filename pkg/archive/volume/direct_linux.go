package volume

import (
	"os"
	"syscall"
)

// openDirect opens a file, with these flags, for direct reads and writes; nil where its file system has none.
func openDirect(path string, flags int) *os.File {
	file, err := os.OpenFile(path, flags|syscall.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return file
}
