package cluster

// RawKey is a key as TiDB writes it and kv requests hold it.
type RawKey []byte

// EncodedKey is a key as PD and raft compare it: memcomparable-encoded, without TiKV's 'z' prefix. It has a type
// of its own so that a raw key cannot take its place: a range with the one kind of key in place of the other is a
// range of other rows, and no call refuses it.
type EncodedKey []byte

// RawRange is [Start, End) of raw keys; an empty End is the end of the key space, an empty Start its beginning.
type RawRange struct {
	Start, End RawKey
}
