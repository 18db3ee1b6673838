package objstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lockName is the file that writers flock. It is never removed.
const lockName = tempPrefix + "lock"

// lockRetry is how often to retry a busy flock; a write holds it for some milliseconds.
const lockRetry = 2 * time.Millisecond

// exclusively runs do while no other process or goroutine writes to the folder, or gives up with ctx.
func (f *fileStore) exclusively(ctx context.Context, do func() error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(f.root, 0o750); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(f.root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // closing frees the lock
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		held, err := tryLock(lock)
		if err != nil {
			return err
		}
		if held {
			return do()
		}
		timer.Reset(lockRetry)
	}
}

func writeSynced(path string, body []byte) error {
	//nolint:gosec // the group may read backups
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	if err = writeBody(file, body); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
