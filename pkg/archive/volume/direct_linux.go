package volume

import (
	"os"
	"syscall"
)

// openDirect opens a file for direct reads and writes; nil where its file system has none.
func openDirect(path string) *os.File {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return file
}
