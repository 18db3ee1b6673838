package cluster

// RawKey is a key as TiDB writes it and kv requests hold it.
type RawKey []byte

// EncodedKey is a key as PD and raft compare it: memcomparable-encoded, without TiKV's 'z' prefix. It has its own type
// so that it cannot be mixed up with a raw key: that would be a range of other rows, which no call refuses.
type EncodedKey []byte

// RawRange is [Start, End) of raw keys; an empty End is the end of the key space, an empty Start its beginning.
type RawRange struct {
	Start, End RawKey
}
