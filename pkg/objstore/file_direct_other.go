//go:build !linux

package objstore

import "os"

// writeBody writes to an empty file.
func writeBody(file *os.File, body []byte) error {
	_, err := file.Write(body)
	return err
}
