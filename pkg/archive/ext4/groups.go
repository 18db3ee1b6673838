package ext4

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// uninitialized is the flag of a group whose bitmap was never written: none of its blocks is a file's.
const uninitialized = 0x2

// group is a descriptor.
type group struct {
	bitmap, inodes, table uint64 // blocks
	free                  uint32
	sum                   uint32 // of the bitmap
	flags                 uint16
}

// span is the blocks from one up to another.
type span struct{ from, to uint64 }

// own is the blocks that a group has for itself, in itself or, with flex_bg, in another.
func (g group) own(sb superblock) []span {
	return []span{{g.bitmap, g.bitmap + 1}, {g.inodes, g.inodes + 1}, {g.table, g.table + sb.tableBlocks}}
}

// groups reads the descriptors of all groups.
func (d *disk) groups(sb superblock) ([]group, error) {
	out := make([]group, 0, sb.count())
	buf := make([]byte, sb.blockSize)
	for b := range sb.descriptorBlocks() {
		if err := d.read(sb.firstData+1+b, buf); err != nil {
			return nil, err
		}
		for raw := range slices.Chunk(buf, int(sb.descriptorSize)) {
			if uint64(len(out)) == sb.count() {
				break
			}
			g, err := parseGroup(sb, uint64(len(out)), raw)
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
	}
	return out, nil
}

func parseGroup(sb superblock, index uint64, raw []byte) (group, error) {
	u16 := func(offset int) uint32 { return uint32(binary.LittleEndian.Uint16(raw[offset:])) }
	u32 := func(offset int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[offset:])) }
	g := group{bitmap: u32(0), inodes: u32(4), table: u32(8), free: u16(0xc), sum: u16(0x18), flags: uint16(u16(0x12))}
	if sb.descriptorSize > 32 {
		g.bitmap, g.inodes, g.table = g.bitmap|u32(0x20)<<32, g.inodes|u32(0x24)<<32, g.table|u32(0x28)<<32
		g.free, g.sum = g.free|u16(0x2c)<<16, g.sum|u16(0x38)<<16
	}
	switch number := le32(uint32(index)); {
	case sb.readOnly&metadataSums != 0:
		if uint16(crc32c(sb.seed, number, without(raw, 0x1e, 2))) != uint16(u16(0x1e)) {
			return g, oddf("the checksum of the descriptor of group %d is wrong", index)
		}
	case sb.readOnly&descriptorSums != 0:
		if crc16(sb.uuid[:], number, raw[:0x1e], raw[0x20:]) != uint16(u16(0x1e)) {
			return g, oddf("the checksum of the descriptor of group %d is wrong", index)
		}
	default:
		g.flags &^= uninitialized // means nothing without a checksum
	}
	for _, part := range g.own(sb) {
		if part.from <= sb.firstData || part.from >= sb.blocks || part.to-part.from > sb.blocks-part.from {
			return g, oddf("the descriptor of group %d names blocks outside of the file system", index)
		}
	}
	return g, nil
}

// bitmaps marks what is in use by the bitmaps of all groups. It reads them in the order in which they are on the
// volume or in its journal.
func (d *disk) bitmaps(sb superblock, groups []group, m *Map) error {
	order := make([]uint32, len(groups))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(d.at(groups[a].bitmap), d.at(groups[b].bitmap)) })
	buf := make([]byte, sb.blockSize)
	for _, i := range order {
		index, g := uint64(i), groups[i]
		if g.flags&uninitialized != 0 {
			if index == 0 || uint64(g.free) != sb.size(index)-sb.overhead(index, g) {
				return oddf("group %d has no bitmap, but does not have all blocks free", index)
			}
			continue
		}
		if err := d.read(g.bitmap, buf); err != nil {
			return err
		}
		if sb.readOnly&metadataSums != 0 {
			sum := crc32c(sb.seed, buf[:sb.perGroup/8])
			if sb.descriptorSize == 32 {
				sum &= 0xffff
			}
			if sum != g.sum {
				return oddf("the checksum of the block bitmap of group %d is wrong", index)
			}
		}
		if free := m.useBitmap(sb, sb.start(index), sb.size(index), buf); free != uint64(g.free) {
			return oddf("group %d has %d free blocks by its bitmap, but %d by its descriptor", index, free, g.free)
		}
	}
	return nil
}

// overhead is the number of blocks of a group without files that are not free.
func (sb superblock) overhead(index uint64, g group) uint64 {
	start, n := sb.start(index), sb.base(index)
	end := start + sb.size(index)
	for _, part := range g.own(sb) {
		if from, to := max(part.from, start), min(part.to, end); from < to {
			n += to - from
		}
	}
	return min(n, end-start)
}
