package archivebench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// same reports as an error where two files, or the files of two folders, differ.
func same(want, got string) error {
	n, err := eachFile(want, func(path string) error { return sameFile(filepath.Join(want, path), filepath.Join(got, path)) })
	if err != nil {
		return err
	}
	m, err := eachFile(got, func(string) error { return nil })
	if err == nil && n != m {
		err = fmt.Errorf("%s has %d files, and %s %d", got, m, want, n)
	}
	return err
}

// eachFile calls do for all files below a folder, or for the file itself.
func eachFile(top string, do func(path string) error) (n int, err error) {
	err = filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		path, err = filepath.Rel(top, path)
		if err != nil {
			return err
		}
		return do(path)
	})
	return n, err
}

func sameFile(want, got string) error {
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
	info, err := a.Stat()
	if err != nil {
		return err
	}
	room := min(1<<20, info.Size()+1)
	x, y := make([]byte, room), make([]byte, room)
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
