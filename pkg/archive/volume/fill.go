package volume

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Device is what Fill writes to.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes durable what was written.
	Sync() error
}

// Filled is how many bytes of saved blocks a Fill has written, and found on the device.
type Filled struct {
	Written int64 `json:"written"`
	Kept    int64 `json:"kept"`
}

// Fill restores a volume to a device that was all zeros before the first Fill of this volume to it. A Fill that ended
// early, also by a loss of power, is resumed by the next one: segments of 32 GiB that it finished are neither read from
// the repository nor written again. done is called, concurrently, with numbers of bytes that are on the device.
//
// The content itself records how far it is, on the device that it is about. A segment's last saved block is its mark:
// it is written once all others are durable. Whoever finds it as it was archived, and not zeros, finds the whole
// segment. Otherwise the segment must still have zeros where nothing was archived: three of these blocks are read, and
// others are a Conflict.
func Fill(
	ctx context.Context, r *repository.Repository, v format.Volume, device Device, reads int, done func(bytes int64),
) (filled Filled, err error) {
	for part, err := range Parts(ctx, r, v) {
		if err != nil {
			return filled, failure.Annotate(err, "fill volume", v.Role)
		}
		f := &filling{to: &Image{To: device}, mark: markOf(part), done: done}
		bytes := part.Places.Saved() * BlockSize
		switch whole, err := f.isWhole(v, part, device); {
		case err != nil:
			return filled, err
		case whole:
			filled.Kept += bytes
			done(bytes)
			continue
		}
		if err := restorePart(ctx, r, v, part, f, reads); err != nil {
			return filled, err
		}
		if err := f.finish(ctx, device); err != nil {
			return filled, err
		}
		filled.Written += bytes
	}
	// A mark that was found may not be durable: its writer may have been killed before.
	return filled, failure.Wrap(device.Sync(), failure.Unknown, "fill volume", v.Role)
}

// noMark is the mark of a part without saved blocks.
const noMark = -1

// markOf returns the index of a part's last saved block.
func markOf(part Part) int64 {
	for i := len(part.Places) - 1; i >= 0; i-- {
		if part.Places[i].State == format.Saved {
			return part.First + int64(i)
		}
	}
	return noMark
}

// filling writes the blocks of one part, except its mark.
type filling struct {
	to   *Image
	mark int64
	last []byte // the mark's content, once it was read
	done func(bytes int64)
}

// isWhole reports whether the device has the part already. If it may not, it must not have anything else.
func (f *filling) isWhole(v format.Volume, part Part, device Device) (bool, error) {
	if f.mark == noMark {
		return true, checkZeros(v, part, device)
	}
	block := make([]byte, sizeOf(v, f.mark))
	if n, err := device.ReadAt(block, f.mark*BlockSize); n < len(block) {
		return false, failure.Wrap(err, failure.Unknown, "read device", v.Role)
	}
	if !IsZero(block) && sha256.Sum256(block) == part.Places[f.mark-part.First].Block.Digest {
		return true, nil
	}
	return false, checkZeros(v, part, device)
}

// checkZeros checks the first, the middle and the last block of a part that is not archived.
func checkZeros(v format.Volume, part Part, device Device) error {
	var unsaved []int64
	for i, place := range part.Places {
		if place.State != format.Saved {
			unsaved = append(unsaved, part.First+int64(i))
		}
	}
	if len(unsaved) == 0 {
		return nil
	}
	for _, index := range []int64{unsaved[0], unsaved[len(unsaved)/2], unsaved[len(unsaved)-1]} {
		block := make([]byte, sizeOf(v, index))
		if n, err := device.ReadAt(block, index*BlockSize); n < len(block) {
			return failure.Wrap(err, failure.Unknown, "read device", v.Role)
		}
		if !IsZero(block) {
			return failure.New(failure.Conflict, "fill volume", v.Role,
				"the device was not empty: its block %d has content, and that of the archive has none", index).
				WithHint("give a device that is all zeros, as blkdiscard -z makes it, or a new volume")
		}
	}
	return nil
}

// Write implements Target. The mark is only kept, until finish.
func (f *filling) Write(ctx context.Context, index int64, block []byte, digest format.Digest) error {
	if index == f.mark {
		f.last = append([]byte(nil), block...) // the buffer is the reader's
		return nil
	}
	if err := f.to.Write(ctx, index, block, digest); err != nil {
		return err
	}
	f.done(int64(len(block)))
	return nil
}

// finish makes the part durable, and then its mark.
func (f *filling) finish(ctx context.Context, device Device) error {
	if err := device.Sync(); err != nil {
		return failure.Wrap(err, failure.Unknown, "write device", "")
	}
	if err := f.to.Write(ctx, f.mark, f.last, format.Digest{}); err != nil {
		return err
	}
	if err := device.Sync(); err != nil {
		return failure.Wrap(err, failure.Unknown, "write device", "")
	}
	f.done(int64(len(f.last)))
	return nil
}

// FillDevice is Fill of a block device, or of a file that exists, of at least the volume's size, which nothing else may
// use. It writes past the page cache where the system allows that.
func FillDevice(
	ctx context.Context, r *repository.Repository, v format.Volume, path string, reads int, done func(bytes int64),
) (filled Filled, err error) {
	const op = "fill device"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_EXCL, 0) // Linux refuses a device that is mounted
	if err != nil {
		return filled, failure.Wrap(err, unopened(err), op, path)
	}
	device := newDirect(file, os.O_RDWR)
	defer func() {
		if closed := device.Close(); err == nil {
			err = failure.Wrap(closed, failure.Unknown, op, path)
		}
	}()
	size, err := file.Seek(0, io.SeekEnd)
	switch {
	case err != nil:
		return filled, failure.Wrap(err, failure.Usage, op, path)
	case size < v.Size:
		return filled, failure.New(failure.Usage, op, path, "it has %d bytes, and the volume %d", size, v.Size)
	}
	return Fill(ctx, r, v, device, reads, done)
}

// unopened is the kind of an error of opening a device. One that is there may only be in use, or not attached yet.
func unopened(err error) failure.Kind {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return failure.Usage
	}
	return failure.Unready
}
