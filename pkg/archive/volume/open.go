package volume

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/tisnap/tisnap/pkg/failure"
)

// File is the image of a volume in a file, or a block device, as a source. It is read past the page cache where the
// system allows that.
type File struct {
	Image
	path  string
	file  *directFile
	state string // when it was opened
}

// OpenFile opens an image or a block device, which must not be in use, for reading alone. What is neither, or empty, is
// a Usage error. The caller must call Close.
func OpenFile(path string) (*File, error) {
	const op = "open source"
	info, err := os.Stat(path)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, path)
	}
	flags := os.O_RDONLY
	switch info.Mode().Type() {
	case 0:
	case os.ModeDevice:
		flags |= os.O_EXCL // Linux refuses a device that is mounted
	case os.ModeNamedPipe:
		return nil, failure.New(failure.Usage, op, path, "it is a pipe").
			WithHint("redirect it to standard input, and give - in its place")
	default:
		return nil, failure.New(failure.Usage, op, path, "it is no file or block device")
	}
	file, err := os.OpenFile(path, flags, 0)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return nil, failure.New(failure.Unready, op, path, "it is in use: %w", err).
			WithHint("unmount it, or give a snapshot of it: what changes while it is read is no volume of any time")
	case err != nil:
		return nil, failure.Wrap(err, failure.Usage, op, path)
	}
	f := &File{path: path, file: newDirect(file, os.O_RDONLY)}
	if err := f.measure(info.Mode().Type()); err != nil {
		_ = f.Close() // it was only read
		return nil, failure.Annotate(err, op, path)
	}
	return f, nil
}

// measure reads the state and size of the file, which must be of the type for which it was opened. Both are of one
// moment: a file of this state has this size.
func (f *File) measure(as fs.FileMode) error {
	info, err := f.file.Stat()
	if err != nil {
		return failure.Wrap(err, failure.Usage, "", "")
	}
	if info.Mode().Type() != as {
		return failure.New(failure.Conflict, "", "", "another file took its place while it was opened").
			WithHint("run the same command again")
	}
	f.From, f.Bytes, f.state = f.file, info.Size(), stateOf(info)
	if as != 0 {
		if f.Bytes, err = f.file.Seek(0, io.SeekEnd); err != nil {
			return failure.Wrap(err, failure.Usage, "", "")
		}
	}
	if f.Bytes == 0 {
		return failure.New(failure.Usage, "", "", "it is empty")
	}
	return nil
}

// State is of a file: another process finds the same if the file was not changed since. It is "" of a device, of which
// that is unknown.
func (f *File) State() string {
	if info, err := f.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return f.state
}

// Check returns a Conflict if the file has changed since it was opened, as far as the system reports that.
func (f *File) Check() error {
	info, err := f.file.Stat()
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "check source", f.path)
	}
	size, err := f.file.Seek(0, io.SeekEnd)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "check source", f.path)
	}
	if size == f.Bytes && stateOf(info) == f.state {
		return nil
	}
	return failure.New(failure.Conflict, "check source", f.path, "it was changed while it was read").
		WithHint("keep others from writing to it, or give a snapshot of it")
}

// Close ends the reading.
func (f *File) Close() error {
	return failure.Wrap(f.file.Close(), failure.Unknown, "close source", f.path)
}
