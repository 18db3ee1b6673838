package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// odd is why a volume cannot be understood.
type odd string

func (o odd) Error() string { return string(o) }

func oddf(format string, args ...any) error { return odd(fmt.Sprintf(format, args...)) }

// disk is a volume as a mount has it: with the journal's copies of blocks in place of what is on disk.
type disk struct {
	ended     func() error // why reading has to stop, or nil
	r         io.ReaderAt
	size      int64
	blockSize int64
	copies    map[uint64]copied
}

// copied is where in the journal a block has a copy.
type copied struct {
	at      uint64 // a block of the volume
	escaped bool   // its first four bytes, which look like the journal's, are zeros there
}

// at is where a block's content is.
func (d *disk) at(block uint64) uint64 {
	if c, ok := d.copies[block]; ok {
		return c.at
	}
	return block
}

// read fills buf, which has the size of a block, with one that is as after the replay.
func (d *disk) read(block uint64, buf []byte) error {
	if err := d.bytes(int64(d.at(block))*d.blockSize, buf); err != nil {
		return err
	}
	if d.copies[block].escaped {
		binary.BigEndian.PutUint32(buf, journalMagic)
	}
	return nil
}

// bytes reads what is on disk.
func (d *disk) bytes(offset int64, buf []byte) error {
	if err := d.ended(); err != nil {
		return err
	}
	if offset < 0 || offset > d.size-int64(len(buf)) {
		return oddf("the volume ends before its file system does")
	}
	n, err := d.r.ReadAt(buf, offset)
	if n == len(buf) && errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
