package ext4_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// logFeatures are the ways in which logs differ.
func logFeatures() map[string]uint32 {
	return map[string]uint32{
		"plain": revokesFeature, "wide": revokesFeature | wideFeature,
		"v2": revokesFeature | sums2Feature, "v2 wide": revokesFeature | wideFeature | sums2Feature,
		"v3": revokesFeature | sums3Feature, "v3 wide": revokesFeature | wideFeature | sums3Feature,
	}
}

// logs are what a log can have, after whose replay the image is the fixture's second one.
func logs() map[string]func(j *journalled) {
	return map[string]func(j *journalled){
		"one transaction": func(j *journalled) { j.write(transaction{copies: j.right()}) },
		"the last copy":   func(j *journalled) { j.write(transaction{copies: j.wrong()}, transaction{copies: j.right()}) },
		"the last copy of one transaction": func(j *journalled) {
			j.write(transaction{copies: append(j.wrong(), j.right()...)})
		},
		"no commit": func(j *journalled) {
			j.write(transaction{copies: j.right()}, transaction{copies: j.wrong(), open: true})
		},
		"a number is missing": func(j *journalled) {
			j.write(transaction{copies: j.right()}, transaction{copies: j.wrong(), skip: 1})
		},
		"behind the end": func(j *journalled) {
			j.write(transaction{copies: j.right()})
			j.put(0, 0)
			j.write(transaction{copies: j.wrong()})
		},
		"revoked": func(j *journalled) {
			wrong, revokes := j.wrong(), j.meta
			for _, c := range j.right() {
				copy(j.block(c.block), c.content)
			}
			j.ext4(func(super []byte) { super[0x60] |= 0x4 })
			j.write(transaction{copies: wrong}, transaction{revokes: revokes})
		},
		"revoked by its own transaction": func(j *journalled) {
			wrong, revokes := j.wrong(), j.meta
			for _, c := range j.right() {
				copy(j.block(c.block), c.content)
			}
			j.ext4(func(super []byte) { super[0x60] |= 0x4 })
			j.write(transaction{copies: wrong, revokes: revokes})
		},
		"revoked and copied again": func(j *journalled) {
			j.write(transaction{copies: j.wrong()}, transaction{revokes: j.meta}, transaction{copies: j.right()})
		},
		"revoked without a commit": func(j *journalled) {
			j.write(transaction{copies: j.right()}, transaction{revokes: j.meta, open: true})
		},
		"a kind of block that is none": func(j *journalled) {
			j.write(transaction{copies: j.right()})
			j.put(7, j.number)
			j.write(transaction{copies: j.wrong()})
		},
	}
}

// What is free is what is free after e2fsck has replayed the log, whatever is in it.
func TestRead_Log_AsReplayed(t *testing.T) {
	t.Parallel()
	for name := range fixtures() {
		f := load(t, name)
		_, want := read(t, f.after)
		on := newMounted(t, f)
		for kind, features := range logFeatures() {
			if name != "sums" && kind != "plain" && kind != "v3 wide" {
				continue // what is in a log does not depend on the layout
			}
			for content, write := range logs() {
				t.Run(fmt.Sprintf("%s/%s/%s", name, kind, content), func(t *testing.T) {
					t.Parallel()
					j := newJournalled(t, on, features, 1, 7)
					write(j)
					m, free := j.free()
					require.Empty(t, m.Reason())
					require.Equal(t, want, free)
					if name == "sums" {
						j.judge(t, want)
					}
				})
			}
		}
	}
}

// The log is a ring, and so are the numbers of its transactions.
func TestRead_LogWrapsAround_AsReplayed(t *testing.T) {
	t.Parallel()
	f := load(t, "copies")
	_, want := read(t, f.after)
	on := newMounted(t, f)
	for start := -6; start < 0; start++ {
		for number := ^uint32(2); number != 2; number++ {
			t.Run(fmt.Sprintf("%d/%x", start, number), func(t *testing.T) {
				t.Parallel()
				j := newJournalled(t, on, revokesFeature|sums3Feature, start, number)
				j.write(transaction{copies: j.wrong()}, transaction{revokes: j.meta}, transaction{copies: j.right()})
				j.write(transaction{copies: j.wrong(), open: true})
				m, free := j.free()
				require.Empty(t, m.Reason())
				require.Equal(t, want, free)
			})
		}
	}
}

// judge lets e2fsck replay the log, and dumpe2fs list what is free then. That takes long, so only make test-archive does it.
func (j *journalled) judge(t *testing.T, want []int64) {
	t.Helper()
	if os.Getenv(required) == "" {
		return
	}
	path := filepath.Join(t.TempDir(), "image")
	writeSparse(t, path, j.bytes())
	text, err := command(t, "e2fsck", "-y", "-E", "journal_only", path).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Equal(t, want, freeBlocks(t, path), "%s", text)
}

// A bitmap that begins as the journal's blocks do is changed in the log.
func TestRead_Escaped_AsReplayed(t *testing.T) {
	t.Parallel()
	f := load(t, "no-sums")
	raw, err := os.ReadFile(f.after)
	require.NoError(t, err)
	const group = 2
	bitmap := raw[binary.LittleEndian.Uint32(raw[2048+32*group:])<<10:]
	was := binary.BigEndian.Uint32(bitmap)
	binary.BigEndian.PutUint32(bitmap, 0xc03b3998)
	free := raw[2048+32*group+0xc:]
	binary.LittleEndian.PutUint16(free, binary.LittleEndian.Uint16(free)+uint16(ones(was)-ones(0xc03b3998)))
	require.NoError(t, os.WriteFile(f.after, raw, 0o600))
	m, want := read(t, f.after)
	require.Empty(t, m.Reason())
	on := newMounted(t, f)
	for kind, features := range logFeatures() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := newJournalled(t, on, features, 1, 7)
			j.write(transaction{copies: j.right()})
			m, free := j.free()
			require.Empty(t, m.Reason())
			require.Equal(t, want, free)
		})
	}
}

func ones(n uint32) (out int) {
	for ; n != 0; n &= n - 1 {
		out++
	}
	return out
}

// Blocks of an earlier use of the journal have a wrong checksum and an old commit: there the log ends.
func TestRead_LogOfAnEarlierUse_Ends(t *testing.T) {
	t.Parallel()
	f := load(t, "sums")
	_, want := read(t, f.after)
	on := newMounted(t, f)
	for _, damage := range []string{"descriptor", "revoke", "commit"} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			j := newJournalled(t, on, revokesFeature|sums3Feature, 1, 7)
			j.write(transaction{copies: j.right()},
				transaction{copies: j.wrong(), revokes: []int{1}, damage: damage, older: true},
				transaction{copies: j.wrong()})
			m, free := j.free()
			require.Empty(t, m.Reason())
			require.Equal(t, want, free)
			j.judge(t, want)
		})
	}
}

// What makes a mount fail, or is not handled, means that nothing is free.
func TestRead_OddLog_NothingIsFree(t *testing.T) {
	t.Parallel()
	on := newMounted(t, load(t, "sums"))
	super := func(offset int, value uint32) func(*journalled) {
		return func(j *journalled) {
			j.super(func(super []byte) { binary.BigEndian.PutUint32(super[offset:], value) })
		}
	}
	damaged := func(damage string) func(*journalled) {
		return func(j *journalled) { j.write(transaction{copies: j.right(), revokes: []int{1}, damage: damage}) }
	}
	for name, odd := range map[string]struct {
		write func(*journalled)
		want  string
	}{
		"descriptor":       {damaged("descriptor"), "the checksum of a committed transaction of the journal is wrong"},
		"revoke block":     {damaged("revoke"), "the checksum of a committed transaction of the journal is wrong"},
		"commit block":     {damaged("commit"), "the checksum of a committed transaction of the journal is wrong"},
		"block":            {damaged("block"), "a block of a committed transaction of the journal is damaged"},
		"count of revokes": {damaged("count of revokes"), "a revoke block of a committed transaction of the journal is damaged"},
		"not to be replayed": {func(j *journalled) { j.ext4(func(super []byte) { super[0x60] &^= 0x4 }) },
			"the journal is not empty, but"},
		"superblock": {func(j *journalled) { j.block(j.blocks[0])[0x1b] ^= 1 },
			"the checksum of the journal's superblock is wrong"},
		"no superblock":      {super(0, 1), "the journal has no superblock of version 2"},
		"version 1":          {super(4, 3), "the journal has no superblock of version 2"},
		"blocks":             {super(0xc, 4096), "the journal has no superblock of version 2"},
		"longer":             {super(0x10, 1<<20), "the journal's superblock makes no sense"},
		"begins at 0":        {super(0x14, 0), "the journal's superblock makes no sense"},
		"begins behind":      {super(0x1c, 1<<20), "the journal's superblock makes no sense"},
		"error":              {super(0x20, 5), "the journal has recorded an error"},
		"old checksums":      {super(0x24, 1), "the journal has a feature that is not handled"},
		"fast commits":       {super(0x28, 0x31), "the journal has a feature that is not handled"},
		"async commits":      {super(0x28, 0x15), "the journal has a feature that is not handled"},
		"both checksums":     {super(0x28, 0x19), "the journal has a feature that is not handled"},
		"feature to write":   {super(0x2c, 1), "the journal has a feature that is not handled"},
		"inode":              {func(j *journalled) { j.ext4(func(super []byte) { super[0xe0] = 9 }) }, "the journal's inode"},
		"inode out of table": {func(j *journalled) { j.ext4(func(super []byte) { super[0xe3] = 9 }) }, "not in the first group"},
		"no journal": {func(j *journalled) { j.ext4(func(super []byte) { super[0x5c] &^= 4 }) },
			"the journal has to be replayed, but there is none"},
		"resized": {func(j *journalled) {
			grown := append([]byte{}, j.mounted.block(1)...)
			changeSuperblock(grown, func(super []byte) { super[0x5]-- })
			j.write(transaction{copies: []copied{{1, grown}}})
		}, "the file system was being resized or got another feature"},
		"damaged copy of the superblock": {func(j *journalled) {
			grown := append([]byte{}, j.mounted.block(1)...)
			grown[0x30]++
			j.write(transaction{copies: []copied{{1, grown}}})
		}, "the checksum of the superblock is wrong"},
		"bitmap without its descriptor": {func(j *journalled) {
			for _, c := range j.right() {
				if c.block == j.bitmaps[0] {
					j.write(transaction{copies: []copied{c}})
				}
			}
		}, "the checksum of the block bitmap of group 0 is wrong"},
		"no end": {func(j *journalled) {
			for range len(j.blocks) - 2 {
				j.revoke(7, transaction{})
			}
			last := j.put(1, 7)
			binary.BigEndian.PutUint16(last[12+6:], 8)
			j.sum(last, -4, false)
		}, "the journal's log has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournalled(t, on, revokesFeature|sums3Feature, 1, 7)
			odd.write(j)
			m, free := j.free()
			require.Contains(t, m.Reason(), odd.want)
			require.Empty(t, free)
		})
	}
}
