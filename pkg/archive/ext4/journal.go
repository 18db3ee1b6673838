package ext4

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// What the blocks of the journal are; all of their numbers are big-endian.
const (
	journalMagic = 0xc03b3998 // they begin with it

	descriptorBlock = 1
	commitBlock     = 2
	superblockV2    = 4
	revokeBlock     = 5

	headerSize = 12 // magic, kind, number of the transaction
	tailSize   = 4  // of a descriptor or revoke block, with checksums
)

// The incompatible features of a journal. Those without a name here are asynchronous and fast commits.
const (
	journalRevokes = 0x1
	journalWide    = 0x2 // block numbers have 64 bits
	journalSums2   = 0x8
	journalSums3   = 0x10
)

// journal is where the journal is, and what is in its superblock.
type journal struct {
	extents            []extent
	first, end         uint32 // of its blocks, those of the log
	start, transaction uint32 // where the log begins, and with which transaction
	wide, sums2, sums3 bool
	seed               uint32
}

// extent is a run of a file's blocks.
type extent struct {
	file   uint32 // its first block in the file
	length uint32
	block  uint64 // its first block on the volume
}

// recover finds the copies of blocks that a mount would replay.
func (d *disk) recover(sb superblock) error {
	if sb.compat&hasJournal == 0 {
		if sb.recover {
			return oddf("the journal has to be replayed, but there is none")
		}
		return nil // it was unmounted, by its state
	}
	j, err := d.journal(sb)
	if err != nil {
		return err
	}
	if j.start == 0 {
		return nil
	}
	if !sb.recover {
		return oddf("the journal is not empty, but by the superblock it need not be replayed")
	}
	if err := d.replay(j); err != nil {
		return err
	}
	after, err := d.superblock()
	if after.recover = sb.recover; err == nil && after != sb {
		err = oddf("the file system was being resized or got another feature")
	}
	return err
}

// journal finds the journal and reads its superblock.
func (d *disk) journal(sb superblock) (*journal, error) {
	j := &journal{}
	size, err := d.journalExtents(sb, j)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, d.blockSize)
	if err := d.read(j.at(0), buf); err != nil {
		return nil, err
	}
	return j, j.parse(buf, size)
}

// parse reads the journal's superblock. size is the number of the journal's blocks.
func (j *journal) parse(buf []byte, size uint32) error {
	u32 := func(offset int) uint32 { return binary.BigEndian.Uint32(buf[offset:]) }
	j.end, j.first, j.transaction, j.start = u32(0x10), u32(0x14), u32(0x18), u32(0x1c)
	j.wide, j.sums2, j.sums3 = u32(0x28)&journalWide != 0, u32(0x28)&journalSums2 != 0, u32(0x28)&journalSums3 != 0
	j.seed = crc32c(initial, buf[0x30:0x40])
	const known = journalRevokes | journalWide | journalSums2 | journalSums3
	switch {
	case u32(0) != journalMagic || u32(4) != superblockV2 || u32(0xc) != uint32(len(buf)):
		return oddf("the journal has no superblock of version 2")
	case u32(0x24) != 0 || u32(0x28)&^known != 0 || u32(0x2c) != 0 || j.sums2 && j.sums3:
		return oddf("the journal has a feature that is not handled: it has %#x, %#x and %#x",
			u32(0x24), u32(0x28), u32(0x2c))
	case j.sums() && !summed(buf[:1024]):
		return oddf("the checksum of the journal's superblock is wrong")
	case u32(0x20) != 0:
		return oddf("the journal has recorded an error")
	case j.end > size || j.first == 0 || j.first >= j.end || j.start >= j.end || j.start != 0 && j.start < j.first:
		return oddf("the journal's superblock makes no sense")
	}
	return nil
}

// summed reports whether the checksum of a journal's superblock is right.
func summed(sb []byte) bool {
	return sb[0x50] == 4 && crc32c(initial, without(sb, 0xfc, 4)) == binary.BigEndian.Uint32(sb[0xfc:])
}

// sums reports whether the log has checksums.
func (j *journal) sums() bool { return j.sums2 || j.sums3 }

// at is where a block of the journal is on the volume.
func (j *journal) at(index uint32) uint64 {
	i, found := slices.BinarySearchFunc(j.extents, index, func(e extent, index uint32) int {
		return cmp.Compare(e.file, index)
	})
	if !found {
		i--
	}
	return j.extents[i].block + uint64(index-j.extents[i].file)
}

// journalExtents finds where the journal's blocks are, and returns their number. The inode is read as it is on disk,
// because a mount does so.
func (d *disk) journalExtents(sb superblock, j *journal) (uint32, error) {
	buf := make([]byte, d.blockSize)
	if err := d.read(sb.firstData+1, buf); err != nil {
		return 0, err
	}
	g, err := parseGroup(sb, 0, buf[:sb.descriptorSize])
	if err != nil {
		return 0, err
	}
	offset := (int64(sb.journal) - 1) * sb.inodeSize
	if offset < 0 || offset >= int64(sb.tableBlocks)*sb.blockSize {
		return 0, oddf("the journal's inode is %d, which is not in the first group", sb.journal)
	}
	if err := d.read(g.table+uint64(offset/sb.blockSize), buf); err != nil {
		return 0, err
	}
	inode := buf[offset%sb.blockSize:][:sb.inodeSize]
	u16 := func(offset int) uint32 { return uint32(binary.LittleEndian.Uint16(inode[offset:])) }
	u32 := func(offset int) uint32 { return binary.LittleEndian.Uint32(inode[offset:]) }
	seed := crc32c(sb.seed, le32(sb.journal), inode[0x64:0x68])
	if sb.readOnly&metadataSums != 0 {
		sum, want, mask := without(inode, 0x7c, 2), u16(0x7c), uint32(0xffff)
		if sb.inodeSize > 128 && u16(0x80) >= 4 {
			clear(sum[0x82:0x84])
			want, mask = want|u16(0x82)<<16, initial
		}
		if crc32c(seed, sum)&mask != want {
			return 0, oddf("the checksum of the journal's inode is wrong")
		}
	}
	const regular, extents = 0x8000, 0x80000
	size := uint64(u32(0x6c))<<32 | uint64(u32(0x4))
	blocks := size / uint64(sb.blockSize)
	if u16(0)&0xf000 != regular || u32(0x20)&extents == 0 || blocks == 0 || blocks >= 1<<32 {
		return 0, oddf("the journal's inode has no extents")
	}
	if err := d.walkExtents(sb, seed, inode[0x28:0x64], 5, j); err != nil {
		return 0, err
	}
	end := uint64(0)
	for _, e := range j.extents {
		if uint64(e.file) != end {
			return 0, oddf("the journal has a hole")
		}
		end += uint64(e.length)
	}
	if end < blocks {
		return 0, oddf("the journal is shorter than the size in its inode")
	}
	return uint32(blocks), nil
}

// maxExtents bounds how much of a tree is read: a journal of 40 GiB has 320 of them.
const maxExtents = 1 << 16

// walkExtents adds the extents of a node of the tree, which has at most levels below it.
func (d *disk) walkExtents(sb superblock, seed uint32, node []byte, levels uint16, j *journal) error {
	u16 := func(b []byte, offset int) uint16 { return binary.LittleEndian.Uint16(b[offset:]) }
	u32 := func(b []byte, offset int) uint32 { return binary.LittleEndian.Uint32(b[offset:]) }
	entries, depth := int(u16(node, 2)), u16(node, 6)
	if u16(node, 0) != 0xf30a || depth > levels || entries == 0 || 12+12*entries > len(node) {
		return oddf("the journal's extents make no sense")
	}
	for entry := range slices.Chunk(node[12:12+12*entries], 12) {
		if depth == 0 {
			e := extent{file: u32(entry, 0), length: uint32(u16(entry, 4))}
			e.block = uint64(u16(entry, 6))<<32 | uint64(u32(entry, 8))
			if e.length == 0 || e.length > 1<<15 || e.block >= sb.blocks || uint64(e.length) > sb.blocks-e.block ||
				len(j.extents) == maxExtents {
				return oddf("the journal's extents make no sense")
			}
			j.extents = append(j.extents, e)
			continue
		}
		child := make([]byte, d.blockSize)
		if err := d.read(min(uint64(u16(entry, 8))<<32|uint64(u32(entry, 4)), sb.blocks), child); err != nil {
			return err
		}
		tail := 12 + 12*int(u16(child, 4))
		if u16(child, 6) != depth-1 || tail > len(child)-4 {
			return oddf("the journal's extents make no sense")
		}
		if sb.readOnly&metadataSums != 0 && crc32c(seed, child[:tail]) != u32(child, tail) {
			return oddf("the checksum of the journal's extents is wrong")
		}
		if err := d.walkExtents(sb, seed, child[:tail], depth-1, j); err != nil {
			return err
		}
	}
	return nil
}
