package ext4

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Features of which this package has to know more than that they do not matter.
const (
	hasJournal   = 0x4
	sparseSuper2 = 0x200

	needsRecovery = 0x4
	wide          = 0x80 // 64bit
	checksumSeed  = 0x2000

	sparseSuper    = 0x1
	descriptorSums = 0x10 // uninit_bg, also called gdt_csum
	metadataSums   = 0x400
)

// The features with which blocks are free as this package finds them. Those that have no name here: of compat
// dir_prealloc, ext_attr, resize_inode, dir_index, stable_inodes, orphan_file; of incompat filetype, extent, mmp,
// flex_bg, ea_inode, large_dir, inline_data, encrypt, casefold; of ro_compat large_file, dir_nlink, huge_file,
// extra_isize, quota, project, verity, orphan_present.
const (
	knownCompat   = 0x1 | hasJournal | 0x8 | 0x10 | 0x20 | sparseSuper2 | 0x800 | 0x1000
	knownIncompat = 0x2 | needsRecovery | 0x40 | wide | 0x100 | 0x200 | 0x400 | checksumSeed | 0x4000 | 0x8000 |
		0x10000 | 0x20000
	knownReadOnly = sparseSuper | 0x2 | 0x8 | descriptorSums | 0x20 | 0x40 | 0x100 | metadataSums | 0x2000 | 0x8000 |
		0x10000
)

// maxGroups bounds the memory: 128 TiB of blocks of 4 KiB, 8 TiB of those of 1 KiB.
const maxGroups = 1 << 20

// superblock is what the places of blocks follow from: it is comparable, and the same for the life of a file system
// whose size and features do not change.
type superblock struct {
	blockSize          int64
	firstData, blocks  uint64
	perGroup           uint64
	tableBlocks        uint64 // of a group's inodes
	inodeSize          int64
	descriptorSize     int64
	reserved           uint64 // blocks for further descriptors
	compat             uint32 // of the features above, those with a name
	incompat, readOnly uint32
	backups            [2]uint64
	uuid               [16]byte
	seed               uint32
	journal            uint32 // its inode
	recover            bool
}

// superblock reads the superblock as it is after the replay of what d has copies of.
func (d *disk) superblock() (superblock, error) {
	raw := make([]byte, 1024)
	if d.blockSize == 0 { // not known yet
		if err := d.bytes(1024, raw); err != nil {
			return superblock{}, err
		}
	} else {
		block := make([]byte, d.blockSize)
		if err := d.read(uint64(1024/d.blockSize), block); err != nil {
			return superblock{}, err
		}
		raw = block[1024%d.blockSize:][:1024]
	}
	sb, err := parseSuperblock(raw)
	if err == nil && sb.blocks > uint64(d.size/sb.blockSize) {
		err = oddf("the volume ends before its file system does")
	}
	if err == nil {
		d.blockSize = sb.blockSize
	}
	return sb, err
}

func parseSuperblock(raw []byte) (superblock, error) {
	u16 := func(offset int) uint16 { return binary.LittleEndian.Uint16(raw[offset:]) }
	u32 := func(offset int) uint32 { return binary.LittleEndian.Uint32(raw[offset:]) }
	if u16(0x38) != 0xef53 {
		return superblock{}, oddf("the volume has no ext4 file system, or has it in a partition or below LVM or LUKS")
	}
	if err := checkFeatures(u32(0x5c), u32(0x60), u32(0x64)); err != nil {
		return superblock{}, err
	}
	if u32(0x4c) != 1 || u32(0x18) > 2 || u32(0x1c) != u32(0x18) {
		return superblock{}, oddf("the file system has revision %d and blocks of 2^%d KiB in clusters of 2^%d KiB",
			u32(0x4c), u32(0x18), u32(0x1c))
	}
	sb := superblock{
		blockSize: 1024 << u32(0x18),
		firstData: uint64(u32(0x14)), blocks: uint64(u32(0x4)),
		perGroup: uint64(u32(0x20)), inodeSize: int64(u16(0x58)), descriptorSize: 32,
		reserved: uint64(u16(0xce)), backups: [2]uint64{uint64(u32(0x24c)), uint64(u32(0x250))},
		compat:   u32(0x5c) & (hasJournal | sparseSuper2),
		incompat: u32(0x60) & (wide | checksumSeed),
		readOnly: u32(0x64) & (sparseSuper | descriptorSums | metadataSums),
		uuid:     [16]byte(raw[0x68:]), journal: u32(0xe0), recover: u32(0x60)&needsRecovery != 0,
	}
	if sb.incompat&wide != 0 {
		sb.blocks |= uint64(u32(0x150)) << 32
		sb.descriptorSize = int64(u16(0xfe))
	}
	sb.seed = crc32c(initial, sb.uuid[:])
	if sb.incompat&checksumSeed != 0 {
		sb.seed = u32(0x270)
	}
	sb.tableBlocks = (uint64(u32(0x28))*uint64(sb.inodeSize) + uint64(sb.blockSize) - 1) / uint64(sb.blockSize)
	switch {
	case sb.readOnly&metadataSums != 0 && (raw[0x175] != 1 || crc32c(initial, raw[:0x3fc]) != u32(0x3fc)):
		return sb, oddf("the checksum of the superblock is wrong")
	case u16(0x3a) != 1:
		return sb, oddf("the file system was not unmounted, or has errors: its state is %#x", u16(0x3a))
	case sb.compat&hasJournal != 0 && u32(0xe4) != 0:
		return sb, oddf("the journal is on another device")
	}
	return sb, sb.check(uint64(u32(0x28)))
}

func checkFeatures(compat, incompat, readOnly uint32) error {
	for _, set := range []struct {
		name        string
		have, known uint32
	}{{"compat", compat, knownCompat}, {"incompat", incompat, knownIncompat}, {"ro_compat", readOnly, knownReadOnly}} {
		if unknown := set.have &^ set.known; unknown != 0 {
			return oddf("the file system has a feature that is not handled: %s %#x", set.name, unknown&-unknown)
		}
	}
	return nil
}

// check makes sure that no later computation overflows or leaves the file system.
func (sb superblock) check(inodesPerGroup uint64) error {
	bits8 := uint64(8 * sb.blockSize)
	first := uint64(0)
	if sb.blockSize == 1024 {
		first = 1
	}
	powerOf2 := func(n, least int64) bool { return n >= least && n <= sb.blockSize && bits.OnesCount64(uint64(n)) == 1 }
	switch {
	case sb.firstData != first || sb.blocks <= first || sb.blocks > 1<<48:
	case sb.perGroup == 0 || sb.perGroup > bits8 || sb.perGroup%8 != 0:
	case inodesPerGroup == 0 || inodesPerGroup > bits8:
	case !powerOf2(sb.inodeSize, 128):
	case sb.descriptorSize != 32 && !powerOf2(sb.descriptorSize, 64):
	case sb.incompat&wide != 0 && sb.descriptorSize == 32:
	case sb.count() > maxGroups:
		return oddf("the file system has more than %d groups of blocks", maxGroups)
	default:
		return nil
	}
	return oddf("the superblock makes no sense")
}

// count is the number of groups.
func (sb superblock) count() uint64 {
	return (sb.blocks - sb.firstData + sb.perGroup - 1) / sb.perGroup
}

// start is a group's first block.
func (sb superblock) start(group uint64) uint64 { return sb.firstData + group*sb.perGroup }

// size is the number of a group's blocks.
func (sb superblock) size(group uint64) uint64 { return min(sb.perGroup, sb.blocks-sb.start(group)) }

// descriptorBlocks is how many blocks the descriptors of all groups take.
func (sb superblock) descriptorBlocks() uint64 {
	per := uint64(sb.blockSize / sb.descriptorSize)
	return (sb.count() + per - 1) / per
}

// base is how many blocks at a group's start are a superblock, descriptors and their reserve.
func (sb superblock) base(group uint64) uint64 {
	if !sb.hasSuper(group) {
		return 0
	}
	return 1 + sb.descriptorBlocks() + sb.reserved
}

// hasSuper reports whether a group has a superblock, the first one or a copy.
func (sb superblock) hasSuper(group uint64) bool {
	switch {
	case group == 0:
		return true
	case sb.compat&sparseSuper2 != 0:
		return slices.Contains(sb.backups[:], group)
	case sb.readOnly&sparseSuper == 0 || group == 1:
		return true
	}
	for _, prime := range []uint64{3, 5, 7} {
		power := prime
		for power < group {
			power *= prime
		}
		if power == group {
			return true
		}
	}
	return false
}
