package ext4_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// The features of a log.
const (
	revokesFeature = 0x1
	wideFeature    = 0x2
	sums2Feature   = 0x8
	sums3Feature   = 0x10
)

// mounted is a fixture as a mount left it: blocks of bitmaps, descriptors and the superblock are those of before, all
// others those of after, and the journal is empty.
type mounted struct {
	raw     []byte
	size    int    // of a block
	inode   int    // where the journal's is
	blocks  []int  // of the journal
	meta    []int  // the blocks that differ from after, whose bitmaps come last
	bitmaps []int  // of groups
	after   []byte // the image after the replay
}

// newMounted makes it, for many logs.
func newMounted(t testing.TB, f fixture) *mounted {
	t.Helper()
	m := &mounted{}
	var err error
	m.raw, err = os.ReadFile(f.before)
	require.NoError(t, err)
	m.after, err = os.ReadFile(f.after)
	require.NoError(t, err)
	m.size = 1024 << m.u32(1024+0x18)
	m.find(t)
	meta := m.meta
	m.meta = nil
	for b := range len(m.raw) / m.size {
		raw, after := m.raw[b*m.size:][:m.size], m.block(b)
		switch same := bytes.Equal(raw, after); {
		case same || slices.Contains(m.blocks, b):
		case slices.Contains(meta, b):
			m.meta = append(m.meta, b)
		default:
			copy(raw, after)
		}
	}
	for _, b := range m.blocks[1:] {
		clear(m.raw[b*m.size:][:m.size])
	}
	return m
}

func (m *mounted) u16(offset int) int { return int(binary.LittleEndian.Uint16(m.raw[offset:])) }
func (m *mounted) u32(offset int) int { return int(binary.LittleEndian.Uint32(m.raw[offset:])) }

// block is a block after the replay.
func (m *mounted) block(b int) []byte { return m.after[b*m.size:][:m.size] }

// journalled is a mounted image whose journal is being written.
type journalled struct {
	*mounted
	t        testing.TB
	own      map[int][]byte // the blocks that may differ from the mounted image, which other tests share
	features uint32         // of the journal
	time     uint64
	number   uint32 // of the next transaction
	at       int    // where it goes
}

// block is a block of the image, which may be changed.
func (j *journalled) block(b int) []byte {
	if j.own[b] == nil {
		j.own[b] = slices.Clone(j.raw[b*j.size:][:j.size])
	}
	return j.own[b]
}

// ReadAt reads the image.
func (j *journalled) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= int64(len(j.raw)) {
		return 0, io.EOF
	}
	n = copy(p, j.raw[off:])
	for b := int(off) / j.size; b*j.size < int(off)+n; b++ {
		if own := j.own[b]; own != nil {
			at := b*j.size - int(off)
			copy(p[max(at, 0):n], own[max(-at, 0):])
		}
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// bytes is the whole image.
func (j *journalled) bytes() []byte {
	out := slices.Clone(j.raw)
	for b, own := range j.own {
		copy(out[b*j.size:], own)
	}
	return out
}

// newJournalled marks the journal of an image to be replayed from a block on.
func newJournalled(t testing.TB, m *mounted, features uint32, start int, number uint32) *journalled {
	t.Helper()
	j := &journalled{
		mounted: m, t: t, own: map[int][]byte{}, features: features, number: number, at: start, time: 1000,
	}
	if start < 0 {
		j.at = len(j.blocks) + start
	}
	j.super(func(super []byte) {
		binary.BigEndian.PutUint32(super[0x18:], number)
		binary.BigEndian.PutUint32(super[0x1c:], uint32(j.at))
		binary.BigEndian.PutUint32(super[0x28:], features)
	})
	j.ext4(func(super []byte) { super[0x60] |= 0x4 })
	return j
}

// find finds the bitmaps and the journal.
func (m *mounted) find(t testing.TB) {
	t.Helper()
	first := m.u32(1024 + 0x14)
	groups := (m.u32(1024+0x4) - first + m.u32(1024+0x20) - 1) / m.u32(1024+0x20)
	descriptor := 32
	if m.u32(1024+0x60)&0x80 != 0 {
		descriptor = m.u16(1024 + 0xfe)
	}
	for b := first; b <= first+(groups*descriptor+m.size-1)/m.size; b++ {
		m.meta = append(m.meta, b)
	}
	table := 0
	for g := range groups {
		at := (first+1)*m.size + g*descriptor
		m.meta, m.bitmaps = append(m.meta, m.u32(at)), append(m.bitmaps, m.u32(at))
		if g == 0 {
			table = m.u32(at + 8)
		}
	}
	inode := table*m.size + 7*m.u16(1024+0x58)
	m.inode = inode
	require.Zero(t, m.u16(inode+0x28+6), "the journal's extents are in its inode")
	for e := range m.u16(inode + 0x28 + 2) {
		at := inode + 0x28 + 12 + 12*e
		for i := range m.u16(at + 4) {
			m.blocks = append(m.blocks, m.u32(at+8)+i)
		}
	}
	m.blocks = m.blocks[:m.u32(inode+4)/m.size]
}

func castagnoli(seed uint32, data []byte) uint32 {
	return ^crc32.Update(^seed, crc32.MakeTable(crc32.Castagnoli), data)
}

// super changes the journal's superblock.
func (j *journalled) super(change func([]byte)) {
	super := j.block(j.blocks[0])[:1024]
	super[0x50] = 4
	change(super)
	clear(super[0xfc:][:4])
	if j.features&(sums2Feature|sums3Feature) != 0 {
		binary.BigEndian.PutUint32(super[0xfc:], castagnoli(^uint32(0), super))
	}
}

// ext4 changes the file system's superblock.
func (j *journalled) ext4(change func([]byte)) {
	changeSuperblock(j.block(1024 / j.size)[1024%j.size:][:1024], change)
}

func changeSuperblock(super []byte, change func([]byte)) {
	change(super)
	if binary.LittleEndian.Uint32(super[0x64:])&0x400 != 0 {
		binary.LittleEndian.PutUint32(super[0x3fc:], castagnoli(^uint32(0), super[:0x3fc]))
	}
}

func (j *journalled) seed() uint32 {
	return castagnoli(^uint32(0), j.block(j.blocks[0])[0x30:0x40])
}

// copied is a block's content in a transaction.
type copied struct {
	block   int
	content []byte
}

// right is all that after has otherwise.
func (j *journalled) right() []copied {
	var out []copied
	for _, b := range j.meta {
		out = append(out, copied{b, j.mounted.block(b)})
	}
	return out
}

// wrong is bitmaps by which everything is free, and the rest from before.
func (j *journalled) wrong() []copied {
	var out []copied
	for _, b := range j.meta {
		content := slices.Clone(j.block(b))
		if slices.Contains(j.bitmaps, b) {
			clear(content)
		}
		out = append(out, copied{b, content})
	}
	return out
}

// transaction is what is written into a log.
type transaction struct {
	copies  []copied
	revokes []int
	open    bool   // has no commit
	skip    uint32 // numbers before its own
	older   bool   // its commit is older than all others
	damage  string // what of it has a wrong checksum: descriptor, block, revoke, commit
}

// put puts a block into the log, and returns it.
func (j *journalled) put(kind, number uint32) []byte {
	out := j.block(j.blocks[j.at])
	if j.at++; j.at == len(j.blocks) {
		j.at = int(binary.BigEndian.Uint32(j.block(j.blocks[0])[0x14:]))
	}
	clear(out)
	if kind != 0 {
		binary.BigEndian.PutUint32(out, 0xc03b3998)
		binary.BigEndian.PutUint32(out[4:], kind)
		binary.BigEndian.PutUint32(out[8:], number)
	}
	return out
}

// sum puts a block's checksum at an offset, from the end if that is negative.
func (j *journalled) sum(block []byte, offset int, damage bool) {
	if j.features&(sums2Feature|sums3Feature) == 0 {
		return
	}
	if offset < 0 {
		offset += len(block)
	}
	sum := castagnoli(j.seed(), block)
	if damage {
		sum ^= 1
	}
	binary.BigEndian.PutUint32(block[offset:], sum)
}

func (j *journalled) write(transactions ...transaction) {
	for _, t := range transactions {
		number := j.number + t.skip
		j.number = number + 1
		if len(t.revokes) > 0 {
			j.revoke(number, t)
		}
		for copies := t.copies; len(copies) > 0; {
			copies = copies[j.describe(number, copies, t.damage):]
		}
		if t.open {
			continue
		}
		j.time++
		commit, time := j.put(2, number), j.time
		if t.older {
			time = 1
		}
		binary.BigEndian.PutUint64(commit[0x30:], time)
		j.sum(commit, 0x10, t.damage == "commit")
	}
}

func (j *journalled) revoke(number uint32, t transaction) {
	block, end := j.put(5, number), 16
	for _, b := range t.revokes {
		if j.features&wideFeature != 0 {
			binary.BigEndian.PutUint64(block[end:], uint64(b))
			end += 8
		} else {
			binary.BigEndian.PutUint32(block[end:], uint32(b))
			end += 4
		}
	}
	binary.BigEndian.PutUint32(block[12:], uint32(end))
	if t.damage == "count of revokes" {
		binary.BigEndian.PutUint32(block[12:], uint32(j.size+1))
	}
	j.sum(block, -4, t.damage == "revoke")
}

// describe writes a descriptor block and as many copies as it can name, and returns how many.
func (j *journalled) describe(number uint32, copies []copied, damage string) int {
	size := map[uint32]int{0: 8, sums2Feature: 10, sums3Feature: 16}[j.features&(sums2Feature|sums3Feature)]
	if j.features&wideFeature != 0 && size < 16 {
		size += 4
	}
	room := j.size
	if j.features&(sums2Feature|sums3Feature) != 0 {
		room -= 4
	}
	block := j.put(1, number)
	n := min(len(copies), (room-12-16)/size)
	at := 12
	for i, c := range copies[:n] {
		data, flags := j.put(0, 0), uint16(0)
		copy(data, c.content)
		if binary.BigEndian.Uint32(data) == 0xc03b3998 {
			clear(data[:4])
			flags |= 1
		}
		if i > 0 {
			flags |= 2
		}
		if i == n-1 {
			flags |= 8
		}
		sum := castagnoli(castagnoli(j.seed(), binary.BigEndian.AppendUint32(nil, number)), data)
		if damage == "block" {
			sum ^= 1
		}
		tag := block[at:]
		binary.BigEndian.PutUint32(tag, uint32(c.block))
		binary.BigEndian.PutUint16(tag[6:], flags)
		switch {
		case j.features&sums3Feature != 0:
			binary.BigEndian.PutUint32(tag[12:], sum)
		case j.features&sums2Feature != 0:
			binary.BigEndian.PutUint16(tag[4:], uint16(sum))
		}
		at += size
		if i == 0 {
			at += 16
		}
	}
	j.sum(block, -4, damage == "descriptor")
	return n
}

// free returns the map of the image and its free blocks.
func (j *journalled) free() (*ext4.Map, []int64) {
	j.t.Helper()
	m, err := ext4.Read(j.t.Context(), j, int64(len(j.raw)))
	require.NoError(j.t, err)
	var free []int64
	for b := range int64(len(j.raw)) / ext4.BlockSize {
		if m.Free(b) {
			free = append(free, b)
		}
	}
	return m, free
}
