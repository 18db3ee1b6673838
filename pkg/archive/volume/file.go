package volume

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// WriteFile restores a volume to a new file. The file gets its name once it is whole and on disk: after an error there
// is none. Blocks that are zeros are holes. It is written past the page cache where the system allows that. A file that
// exists is a Conflict. wrote is called concurrently with numbers of bytes that were written; reads is that of Restore.
func WriteFile(
	ctx context.Context, r *repository.Repository, v format.Volume, path string, reads int, wrote func(bytes int64),
) (err error) {
	const op = "write file"
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			return failure.New(failure.Conflict, op, path, "it exists").WithHint("delete it, or give another name")
		}
		return failure.Wrap(err, failure.Usage, op, path)
	}
	if err := removePartial(path); err != nil {
		return failure.Wrap(err, failure.Usage, op, path)
	}
	created, err := os.CreateTemp(filepath.Dir(path), partialPrefix(path)+"*"+partialSuffix)
	if err != nil {
		return failure.Wrap(err, failure.Usage, op, path)
	}
	file := newDirect(created, os.O_RDWR)
	defer func() {
		if err != nil {
			_ = file.Close() // err is what went wrong first
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := file.Truncate(v.Size); err != nil {
		return failure.Wrap(err, failure.Unknown, op, path)
	}
	if err := Restore(ctx, r, v, counted{&Image{To: file, OneByOne: file.direct == nil}, wrote}, reads); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return failure.Wrap(err, failure.Unknown, op, path)
	}
	if err := file.Close(); err != nil {
		return failure.Wrap(err, failure.Unknown, op, path)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return failure.Wrap(err, failure.Unknown, op, path)
	}
	return syncFolder(filepath.Dir(path))
}

// partialSuffix ends the name of a file that is not whole.
const partialSuffix = ".partial"

func partialPrefix(path string) string { return "." + filepath.Base(path) + "." }

// removePartial removes what killed processes left of a file. One that still writes it fails when it renames.
func removePartial(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partialPrefix(path)) && strings.HasSuffix(e.Name(), partialSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), e.Name())))
		}
	}
	return err
}

// syncFolder makes a new name in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	return failure.Wrap(err, failure.Unknown, "write folder", path)
}

// WriteDevice restores a volume to a block device of at least its size, which nothing else may use. All blocks are
// written, zeros too, unless the device is known to be all zeros. What is behind the volume's end stays. After an error
// the device has a part of the volume.
func WriteDevice(
	ctx context.Context, r *repository.Repository, v format.Volume, path string, zeroed bool, reads int,
	wrote func(bytes int64),
) (err error) {
	const op = "write device"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_EXCL, 0) // Linux refuses a device that is mounted
	if err != nil {
		return failure.Wrap(err, failure.Usage, op, path)
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = failure.Wrap(closed, failure.Unknown, op, path)
		}
	}()
	size, err := file.Seek(0, io.SeekEnd)
	switch {
	case err != nil:
		return failure.Wrap(err, failure.Usage, op, path)
	case size < v.Size:
		return failure.New(failure.Usage, op, path, "it has %d bytes, and the volume %d", size, v.Size)
	}
	if err := Restore(ctx, r, v, counted{&Image{To: file, Dirty: !zeroed}, wrote}, reads); err != nil {
		return err
	}
	return failure.Wrap(file.Sync(), failure.Unknown, op, path)
}

// counted is an image that counts what is written.
type counted struct {
	*Image
	wrote func(bytes int64)
}

func (c counted) Write(ctx context.Context, index int64, block []byte, digest format.Digest) error {
	err := c.Image.Write(ctx, index, block, digest)
	c.wrote(int64(len(block)))
	return err
}

func (c counted) Clear(ctx context.Context, index, size int64) error {
	err := c.Image.Clear(ctx, index, size)
	if c.Dirty {
		c.wrote(size)
	}
	return err
}
