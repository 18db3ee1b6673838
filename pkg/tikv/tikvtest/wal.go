package tikvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// errCorrupt is a record that is wrong although a good one follows it: not a torn tail.
var errCorrupt = errors.New("record checksum does not match in the middle of the log")

const (
	walMagic      = 0x7469736e61706c67
	recordHeader  = 8 // length and checksum
	superblocks   = 2 * disk.PageSize
	superblockLen = 28
	// keptBuffer is the largest buffer that stays after a flush: a checkpoint's is larger, and rarely needed.
	keptBuffer = 64 << 10
)

// wal is a log of records on a device, used as a ring. Positions are logical and only grow. Two superblocks,
// written in turn, record where the log starts; it ends at the first record that is not whole. Appended records
// are in memory until flush. It is safe for concurrent use.
type wal struct {
	mu         sync.Mutex
	dev        *disk.Device
	area       int64
	generation uint64
	start      int64
	tail       int64 // where buf goes
	buf        []byte
	live       int64 // size of the last checkpoint
	fresh      bool  // nothing was on the device
}

// openWAL finds the log on the device and replays its records. The torn record that a crash leaves at the
// end is dropped.
func openWAL(dev *disk.Device, replay func(record []byte) error) (*wal, error) {
	w := &wal{dev: dev, area: (dev.Size() - superblocks) / disk.PageSize * disk.PageSize}
	if w.area < disk.PageSize {
		return nil, fmt.Errorf("device of %d bytes is too small", dev.Size())
	}
	if err := w.readSuperblocks(); err != nil {
		return nil, err
	}
	if w.generation == 0 {
		w.fresh = true
		return w, w.writeSuperblock()
	}
	w.tail = w.start
	for {
		record, next, err := w.read(w.tail)
		if err != nil {
			return nil, err
		}
		if record == nil {
			break
		}
		if err := replay(record); err != nil {
			return nil, err
		}
		w.tail = next
	}
	return w, nil
}

func (w *wal) readSuperblocks() error {
	for slot := range int64(2) {
		b := make([]byte, superblockLen)
		if _, err := w.dev.ReadAt(b, slot*disk.PageSize); err != nil {
			return err
		}
		generation := binary.BigEndian.Uint64(b[8:])
		if binary.BigEndian.Uint64(b) != walMagic || crc32.ChecksumIEEE(b[:24]) != binary.BigEndian.Uint32(b[24:]) {
			continue
		}
		if generation > w.generation {
			w.generation, w.start = generation, int64(binary.BigEndian.Uint64(b[16:]))
		}
	}
	return nil
}

// writeSuperblock makes start the beginning of the log. It is one write within a page, so it is atomic.
func (w *wal) writeSuperblock() error {
	w.generation++
	b := make([]byte, superblockLen)
	binary.BigEndian.PutUint64(b, walMagic)
	binary.BigEndian.PutUint64(b[8:], w.generation)
	binary.BigEndian.PutUint64(b[16:], uint64(w.start))
	binary.BigEndian.PutUint32(b[24:], crc32.ChecksumIEEE(b[:24]))
	_, err := w.dev.WriteAt(b, int64(w.generation%2)*disk.PageSize)
	return err
}

// read returns the record at a position and the position after it, or nil at the end of the log.
func (w *wal) read(pos int64) ([]byte, int64, error) {
	record, next, err := w.readAny(pos)
	if err != nil || record != nil || next == pos {
		return record, next, err
	}
	// The header speaks of a record that is not whole. A whole one behind it means that this is no torn tail.
	after, _, err := w.readAny(next)
	if err != nil {
		return nil, 0, err
	}
	if after != nil {
		return nil, 0, errCorrupt
	}
	return nil, pos, nil
}

// readAny returns the record at pos, nil and the position after it if its checksum is wrong, and nil and pos
// if there is none.
func (w *wal) readAny(pos int64) ([]byte, int64, error) {
	header := make([]byte, recordHeader)
	if pos+recordHeader > w.start+w.area {
		return nil, pos, nil
	}
	if err := w.readAt(header, pos); err != nil {
		return nil, 0, err
	}
	length := int64(binary.BigEndian.Uint32(header))
	next := pos + recordHeader + length
	if length == 0 || next > w.start+w.area {
		return nil, pos, nil
	}
	payload := make([]byte, length)
	if err := w.readAt(payload, pos+recordHeader); err != nil {
		return nil, 0, err
	}
	if checksum(pos, payload) != binary.BigEndian.Uint32(header[4:]) {
		return nil, next, nil
	}
	return payload, next, nil
}

// checksum covers the position, so that what an earlier round of the ring left behind is no record.
func checksum(pos int64, payload []byte) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(pos))
	return crc32.Update(crc32.ChecksumIEEE(at[:]), crc32.IEEETable, payload)
}

// append adds a record to the buffer.
func (w *wal) append(payload []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(payload)
}

func (w *wal) add(payload []byte) {
	pos := w.tail + int64(len(w.buf))
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(payload)))
	w.buf = binary.BigEndian.AppendUint32(w.buf, checksum(pos, payload))
	w.buf = append(w.buf, payload...)
}

// flush writes the buffer to the device.
func (w *wal) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write()
}

func (w *wal) write() error {
	if len(w.buf) == 0 {
		return nil
	}
	if w.tail+int64(len(w.buf))-w.start > w.area {
		return errors.New("no space left on device")
	}
	if err := w.ring(w.tail, int64(len(w.buf)), func(off, at, n int64) error {
		_, err := w.dev.WriteAt(w.buf[at:at+n], off)
		return err
	}); err != nil {
		return err
	}
	w.tail += int64(len(w.buf))
	if w.buf = w.buf[:0]; cap(w.buf) > keptBuffer {
		w.buf = nil
	}
	return nil
}

// size is the length of the log in bytes.
func (w *wal) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tail + int64(len(w.buf)) - w.start
}

// wasteful reports whether a checkpoint would pay.
func (w *wal) wasteful(limit int64) bool {
	size := w.size()
	w.mu.Lock()
	defer w.mu.Unlock()
	return size > limit && size > 2*w.live
}

// checkpoint writes a new log that holds what write emits behind the old one, makes it the log, and gives
// the old one's space back. A crash in between leaves the old log followed by part of the new one, so records
// must be such that repeating them changes nothing.
func (w *wal) checkpoint(write func(emit func(payload []byte) error) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.write(); err != nil {
		return err
	}
	old, start := w.start, w.tail
	err := write(func(payload []byte) error {
		w.add(payload)
		if len(w.buf) < 1<<20 {
			return nil
		}
		return w.write()
	})
	if err == nil {
		err = w.write()
	}
	if err != nil {
		return err
	}
	w.start, w.live = start, w.tail-start
	if err := w.writeSuperblock(); err != nil {
		return err
	}
	// What is before old in its page is dead too, unless the ring is so full that its end is there.
	if floor := old - old%disk.PageSize; w.tail-floor <= w.area {
		old = floor
	}
	return w.ring(old, start-old, func(off, _, n int64) error {
		w.dev.Discard(off, n)
		return nil
	})
}

// readAt reads at a logical position.
func (w *wal) readAt(p []byte, pos int64) error {
	return w.ring(pos, int64(len(p)), func(off, at, n int64) error {
		_, err := w.dev.ReadAt(p[at:at+n], off)
		return err
	})
}

// ring calls fn for each piece of [pos, pos+length) that is contiguous on the device.
func (w *wal) ring(pos, length int64, fn func(off, at, n int64) error) error {
	for at := int64(0); at < length; {
		in := (pos + at) % w.area
		n := min(length-at, w.area-in)
		if err := fn(superblocks+in, at, n); err != nil {
			return err
		}
		at += n
	}
	return nil
}
