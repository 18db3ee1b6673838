package plan

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	keyShardBits = 6 // 64 locks: the stores' streams seldom wait for each other
	keyArena     = 16 << 10
)

// keyID names a key in a keyTable: equal ids are equal keys. The empty key is 0.
type keyID uint32

// keyTable holds each key once: the peers of a region have the same two keys, and so do its neighbours.
// It is safe for concurrent use.
type keyTable struct {
	seed   maphash.Seed
	shards [1 << keyShardBits]keyShard
}

// keyShard is an open-addressing table of the keys whose hash ends in its number.
type keyShard struct {
	mu    sync.Mutex
	slots []keySlot // a power of two of them, at most 3/4 in use
	keys  [][]byte
	arena []byte // what is left of the last block of bytes
}

// keySlot is free if its key is 0, else it holds 1 + the index in keyShard.keys.
type keySlot struct{ hash, key uint32 }

func newKeyTable() *keyTable {
	return &keyTable{seed: maphash.MakeSeed()}
}

// intern returns the key's id and copies the key when it is new. It returns false if there are 2^32 of them.
func (t *keyTable) intern(key cluster.EncodedKey) (keyID, bool) {
	if len(key) == 0 {
		return 0, true
	}
	h := maphash.Bytes(t.seed, key)
	n := h & (1<<keyShardBits - 1)
	s := &t.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.find(uint32(h>>32), key)
	return keyID(i)<<keyShardBits | keyID(n), ok
}

// bytes is the key itself; it must not be changed.
func (t *keyTable) bytes(id keyID) cluster.EncodedKey {
	if id == 0 {
		return nil
	}
	return t.shards[id&(1<<keyShardBits-1)].keys[id>>keyShardBits-1]
}

// compare orders two keys that start ranges: the empty one is the smallest.
func (t *keyTable) compare(a, b keyID) int {
	if a == b {
		return 0
	}
	return bytes.Compare(t.bytes(a), t.bytes(b))
}

// beyond reports whether a range that ends at end reaches over a range that begins at start. The empty end is
// that of the key space.
func (t *keyTable) beyond(end, start keyID) bool {
	return end == 0 || t.compare(end, start) > 0
}

// find returns 1 + the key's index in the shard.
func (s *keyShard) find(hash uint32, key []byte) (uint32, bool) {
	if len(s.keys) >= len(s.slots)/4*3 {
		s.grow()
	}
	mask := saturate.To[uint32](len(s.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := &s.slots[at]
		if slot.key == 0 {
			if len(s.keys) >= 1<<(32-keyShardBits)-2 {
				return 0, false
			}
			s.keys = append(s.keys, s.keep(key))
			*slot = keySlot{hash: hash, key: saturate.To[uint32](len(s.keys))}
			return slot.key, true
		}
		if slot.hash == hash && bytes.Equal(s.keys[slot.key-1], key) {
			return slot.key, true
		}
	}
}

// keep copies the key into the arena.
func (s *keyShard) keep(key []byte) []byte {
	if len(s.arena) < len(key) {
		s.arena = make([]byte, max(keyArena, len(key)))
	}
	kept := s.arena[:len(key):len(key)]
	s.arena = s.arena[len(key):]
	copy(kept, key)
	return kept
}

func (s *keyShard) grow() {
	old := s.slots
	s.slots = make([]keySlot, max(64, 2*len(old)))
	mask := saturate.To[uint32](len(s.slots) - 1)
	for _, slot := range old {
		if slot.key == 0 {
			continue
		}
		at := slot.hash & mask
		for s.slots[at].key != 0 {
			at = (at + 1) & mask
		}
		s.slots[at] = slot
	}
}
