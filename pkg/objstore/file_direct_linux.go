package objstore

import (
	"os"
	"syscall"
)

const (
	// minDirect is the size from which on a body is written past the page cache: nothing reads a pack soon, and copying
	// it there takes longer than encrypting it did.
	minDirect = 8 << 20
	// directSize divides what is written so: the largest sector.
	directSize = 4 << 10
)

// writeBody writes to an empty file.
func writeBody(file *os.File, body []byte) error {
	n := 0
	if len(body) >= minDirect {
		n = writeDirect(file.Name(), body[:len(body)/directSize*directSize])
	}
	_, err := file.WriteAt(body[n:], int64(n))
	return err
}

// writeDirect writes as much as goes past the page cache, and returns how much that was: none, where the file system
// refuses it.
func writeDirect(path string, body []byte) int {
	file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return 0
	}
	n, err := file.Write(body)
	if closed := file.Close(); err != nil || closed != nil {
		return 0 // all of it is written again
	}
	return n
}
