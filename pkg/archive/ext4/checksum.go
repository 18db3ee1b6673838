package ext4

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// initial is what all checksums begin with.
const initial = ^uint32(0)

// crc32c is the kernel's, which inverts neither what goes in nor the result.
func crc32c(seed uint32, data ...[]byte) uint32 {
	for _, d := range data {
		seed = ^crc32.Update(^seed, castagnoli, d)
	}
	return seed
}

// crc16 is the checksum of descriptors in file systems that have uninit_bg without metadata_csum.
func crc16(data ...[]byte) uint16 {
	crc := ^uint16(0)
	for _, d := range data {
		for _, b := range d {
			crc ^= uint16(b)
			for range 8 {
				crc = crc>>1 ^ crc&1*0xa001
			}
		}
	}
	return crc
}

// without returns a copy of data in which n bytes at an offset, those of its checksum, are zeros.
func without(data []byte, offset, n int) []byte {
	out := append([]byte(nil), data...)
	clear(out[offset : offset+n])
	return out
}

func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
