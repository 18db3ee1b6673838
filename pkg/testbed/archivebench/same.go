package archivebench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// same reports as an error where two files differ.
func same(want, got string) error {
	a, err := os.Open(want)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := os.Open(got)
	if err != nil {
		return err
	}
	defer b.Close()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); ; at += int64(len(x)) {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return fmt.Errorf("%s is not %s: they differ within a MiB of %d", got, want, at)
		}
		if n < len(x) {
			return ended(errA, errB)
		}
	}
}

// ended returns the errors that are not the end of a file.
func ended(errs ...error) error {
	for n, err := range errs {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			errs[n] = nil
		}
	}
	return errors.Join(errs...)
}
