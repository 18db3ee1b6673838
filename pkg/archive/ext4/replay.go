package ext4

import "encoding/binary"

// maxCopies bounds the memory for the blocks of a journal: four times as many as the largest journal that mkfs makes by
// default.
const maxCopies = 1 << 20

// replay reads the log of a journal as the kernel replays it: transaction by transaction, up to the first block that
// does not belong to the next one or has no commit. It keeps where the last copy of each block is that no transaction
// revokes, its own included.
//
// Blocks of an earlier use of the journal can look like a further transaction, but have a wrong checksum, and a commit
// that is older than the last one: they are where the log ends, too. Any other wrong checksum makes the mount fail, so
// it is odd.
func (d *disk) replay(j *journal) error {
	d.copies = map[uint64]copied{}
	l := &log{disk: d, journal: j, at: j.start, left: j.end - j.first, buf: make([]byte, d.blockSize)}
	l.data = make([]byte, d.blockSize)
	for number := j.transaction; ; number++ {
		committed, err := l.transaction(number)
		if err != nil || !committed {
			return err
		}
		for _, t := range l.tags {
			d.copies[t.block] = copied{at: j.at(t.at), escaped: t.escaped}
		}
		for _, block := range l.revoked {
			delete(d.copies, block)
		}
		if len(d.copies) > maxCopies {
			return oddf("the journal has copies of more than %d blocks", maxCopies)
		}
	}
}

// log is the part of the journal that was not read yet, and the transaction that is being read.
type log struct {
	disk      *disk
	journal   *journal
	at        uint32 // the next block
	left      uint32 // blocks until the log would begin again
	last      uint64 // the time of the last commit
	buf, data []byte

	tags    []tag
	revoked []uint64
	doubt   bool   // a checksum is wrong of what may be of an earlier use of the journal
	wrong   string // what is wrong with the transaction if it is committed
}

// tag is a block of a transaction.
type tag struct {
	block   uint64
	at      uint32 // in the journal
	escaped bool
}

// next takes the next block of the log.
func (l *log) next() (uint32, error) {
	if l.left == 0 {
		return 0, oddf("the journal's log has no end")
	}
	at := l.at
	l.left--
	if l.at++; l.at == l.journal.end {
		l.at = l.journal.first
	}
	return at, nil
}

// transaction reads the one with a number, and reports whether it is committed.
func (l *log) transaction(number uint32) (bool, error) {
	l.tags, l.revoked, l.wrong = l.tags[:0], l.revoked[:0], ""
	for l.left > 0 {
		at, err := l.next()
		if err != nil {
			return false, err
		}
		if err := l.disk.read(l.journal.at(at), l.buf); err != nil {
			return false, err
		}
		if binary.BigEndian.Uint32(l.buf) != journalMagic || binary.BigEndian.Uint32(l.buf[8:]) != number {
			return false, nil
		}
		switch binary.BigEndian.Uint32(l.buf[4:]) {
		case descriptorBlock:
			l.doubt = l.doubt || !l.tailIsRight()
			err = l.descriptor(number)
		case revokeBlock:
			l.doubt = l.doubt || !l.tailIsRight()
			l.revokes()
		case commitBlock:
			return l.commit()
		default:
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(l.tags) > maxCopies || len(l.revoked) > maxCopies {
			return false, oddf("the journal has a transaction of more than %d blocks", maxCopies)
		}
	}
	return false, nil // as good as a block that is not of the transaction: the log begins behind it
}

// tailIsRight verifies the checksum of a descriptor or revoke block.
func (l *log) tailIsRight() bool {
	tail := len(l.buf) - tailSize
	return !l.journal.sums() ||
		crc32c(l.journal.seed, l.buf[:tail], make([]byte, tailSize)) == binary.BigEndian.Uint32(l.buf[tail:])
}

// descriptor reads the tags of a descriptor block, and the blocks that they are about, which follow it.
func (l *log) descriptor(number uint32) error {
	j := l.journal
	size, room := 8, len(l.buf)
	switch {
	case j.sums3:
		size = 16
	case j.sums2:
		size += 2
	}
	if j.wide && !j.sums3 {
		size += 4
	}
	if j.sums() {
		room -= tailSize
	}
	const escaped, sameUUID, lastTag = 0x1, 0x2, 0x8
	for at := headerSize; at+size <= room; at += size {
		raw := l.buf[at : at+size]
		flags := binary.BigEndian.Uint16(raw[6:])
		t := tag{block: uint64(binary.BigEndian.Uint32(raw)), escaped: flags&escaped != 0}
		if j.wide {
			t.block |= uint64(binary.BigEndian.Uint32(raw[8:])) << 32
		}
		var err error
		if t.at, err = l.next(); err != nil {
			return err
		}
		if j.sums() {
			if err := l.disk.read(j.at(t.at), l.data); err != nil {
				return err
			}
			sum := crc32c(j.seed, binary.BigEndian.AppendUint32(nil, number), l.data)
			if j.sums3 && sum != binary.BigEndian.Uint32(raw[12:]) ||
				j.sums2 && uint16(sum) != binary.BigEndian.Uint16(raw[4:]) {
				l.wrong = "a block"
			}
		}
		l.tags = append(l.tags, t)
		if flags&sameUUID == 0 {
			at += 16
		}
		if flags&lastTag != 0 {
			break
		}
	}
	return nil
}

// revokes reads a revoke block.
func (l *log) revokes() {
	size, room := 4, len(l.buf)
	if l.journal.wide {
		size = 8
	}
	if l.journal.sums() {
		room -= tailSize
	}
	end := binary.BigEndian.Uint32(l.buf[headerSize:])
	if end > uint32(room) {
		l.wrong = "a revoke block"
		return
	}
	for at := headerSize + 4; at+size <= int(end); at += size {
		if l.journal.wide {
			l.revoked = append(l.revoked, binary.BigEndian.Uint64(l.buf[at:]))
		} else {
			l.revoked = append(l.revoked, uint64(binary.BigEndian.Uint32(l.buf[at:])))
		}
	}
}

// commit reads a commit block, and reports whether it counts.
func (l *log) commit() (bool, error) {
	const sum, seconds = headerSize + 4, 0x30
	time := binary.BigEndian.Uint64(l.buf[seconds:])
	right := !l.journal.sums() ||
		crc32c(l.journal.seed, without(l.buf, sum, 4)) == binary.BigEndian.Uint32(l.buf[sum:])
	switch {
	case (l.doubt || !right) && time < l.last:
		return false, nil
	case l.doubt || !right:
		return false, oddf("the checksum of a committed transaction of the journal is wrong")
	case l.wrong != "":
		return false, oddf("%s of a committed transaction of the journal is damaged", l.wrong)
	}
	l.last = time
	return true, nil
}
