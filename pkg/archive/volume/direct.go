package volume

import (
	"errors"
	"io"
	"os"
	"sync"
	"unsafe"

	"github.com/tisnap/tisnap/pkg/archive/repository"
)

// directAlign is what the addresses, offsets and lengths of direct reads and writes must be multiples of: no less than
// the logical block of any device.
const directAlign = 4096

// directFile is a file whose whole blocks are read and written past the page cache, if it has a second, direct handle.
type directFile struct {
	*os.File
	direct  *os.File // nil where the system has no direct reads and writes
	aligned sync.Pool
}

// newDirect returns a file with a second, direct handle, which is opened with these flags. If its name is that of
// another file by now, it has none.
func newDirect(file *os.File, flags int) *directFile {
	f := &directFile{File: file, direct: openDirect(file.Name(), flags)}
	if f.direct != nil && !isSame(file, f.direct) {
		_ = f.direct.Close() // nothing was done by it
		f.direct = nil
	}
	return f
}

// isSame reports whether two handles are known to be of the same file.
func isSame(a, b *os.File) bool {
	is, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(is, other)
}

// ReadAt implements io.ReaderAt. What the file system refuses to read past the page cache is read through it.
func (f *directFile) ReadAt(p []byte, at int64) (int, error) {
	if !f.isDirect(len(p), at) {
		return f.File.ReadAt(p, at)
	}
	if misaligned(p) == 0 {
		if n, err := f.direct.ReadAt(p, at); err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		return f.File.ReadAt(p, at)
	}
	if len(p) > BlockSize {
		return f.File.ReadAt(p, at)
	}
	buffer := f.buffer()
	defer f.aligned.Put(buffer)
	if n, err := f.direct.ReadAt((*buffer)[:len(p)], at); err == nil || errors.Is(err, io.EOF) {
		return copy(p, (*buffer)[:n]), err
	}
	return f.File.ReadAt(p, at)
}

// WriteAt implements io.WriterAt. What the file system refuses to write past the page cache is written through it.
func (f *directFile) WriteAt(p []byte, at int64) (int, error) {
	if !f.isDirect(len(p), at) || len(p) > BlockSize {
		return f.File.WriteAt(p, at)
	}
	buffer := f.buffer()
	defer f.aligned.Put(buffer)
	if n, err := f.direct.WriteAt((*buffer)[:copy(*buffer, p)], at); err == nil {
		return n, nil
	}
	return f.File.WriteAt(p, at)
}

func (f *directFile) isDirect(length int, at int64) bool {
	return f.direct != nil && length%directAlign == 0 && at%directAlign == 0
}

// buffer returns a buffer of a block at an address that direct reads and writes take.
func (f *directFile) buffer() *[]byte {
	if b, ok := f.aligned.Get().(*[]byte); ok {
		return b
	}
	raw := alignedBuffer(BlockSize)
	return &raw
}

// alignedBuffer returns a buffer of this size at an address that direct reads and writes take.
func alignedBuffer(size int) []byte {
	raw := repository.Room(size + directAlign)
	return raw[(directAlign-misaligned(raw))%directAlign:][:size:size]
}

// misaligned is how many bytes an address is behind one that direct reads and writes take.
func misaligned(p []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (directAlign - 1)) //nolint:gosec // only an address
}

// Close closes both handles.
func (f *directFile) Close() error {
	if f.direct == nil {
		return f.File.Close()
	}
	return errors.Join(f.direct.Close(), f.File.Close())
}
