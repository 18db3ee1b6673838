package ebsdirect

import (
	"context"
	"crypto/sha256"
	"iter"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// BlockSize is the size of every block: a volume is a whole number of GiB, so that none is shorter.
const BlockSize = 512 << 10

// Sum is the SHA-256 of a block or, of a whole snapshot, that of its blocks' sums (see Linear).
type Sum [sha256.Size]byte

// Block is one block of a snapshot. It is valid in the process that listed it, however old it is.
type Block struct {
	Snapshot cluster.SnapshotID
	Index    int64

	token  string // "" if the snapshot does not have the block
	listed time.Time
}

// Absent reports whether the snapshot does not have the block: it was discarded since the base. It reads as zeros.
func (b Block) Absent() bool { return b.token == "" }

// Source reads snapshots that are completed. Kinds of all methods: Usage, NotFound, Denied, Limited, Corrupt, Unknown.
type Source interface {
	// SizeGiB is the size of the snapshot's volume.
	SizeGiB(ctx context.Context, id cluster.SnapshotID) (int64, error)
	// Blocks lists the blocks with data in them, ascending, from an index on. An error is the last element, and ends a
	// list that is not ascending. No more than one page of blocks is in memory. A block that is not listed reads as
	// zeros.
	Blocks(ctx context.Context, id cluster.SnapshotID, from int64) iter.Seq2[Block, error]
	// Changed lists, in the same way, the blocks that may differ between two snapshots of one volume, as those of id:
	// all others are the same in both. Snapshots that are not of one lineage are a Usage error.
	Changed(ctx context.Context, base, id cluster.SnapshotID, from int64) iter.Seq2[Block, error]
	// Read fills into, which has BlockSize bytes, and returns the block's sum, which was checked: data of another
	// length or sum is never returned, but a Corrupt error after a few tries. After an error, into has any content.
	Read(ctx context.Context, b Block, into []byte) (Sum, error)
}

// NewSnapshot describes a snapshot to write.
type NewSnapshot struct {
	// Token makes Start repeatable, and is needed: the same token and description give the same snapshot, another
	// description is a Conflict. See Token.
	Token   string
	SizeGiB int64 // of its volume
	// Parent, if set, gives all blocks that are not put, and the encryption. Otherwise they are zeros.
	Parent cluster.SnapshotID
	// Encrypted encrypts by KMSKey, an ARN, or by the account's default key if that is "". Not together with Parent.
	Encrypted bool
	KMSKey    string
	// Timeout is how long the snapshot may stay without a further block or its completion, in whole minutes; 0 is AWS's
	// default, an hour. After that it is in state error.
	Timeout     time.Duration
	Description string
	Tags        ebs.Tags
}

// Target writes snapshots. A call whose answer is lost is sent again, which has no further effect. No call is sent once
// the run's lock is lost; see package fenced. Kinds of all methods: Usage, NotFound, Conflict, Denied, Limited,
// Unknown.
type Target interface {
	// Start makes a pending snapshot. Its blocks are put in any order, many at a time.
	Start(ctx context.Context, s NewSnapshot) (cluster.SnapshotID, error)
	// Put writes a block of BlockSize bytes. EBS checks that data have the sum, which is given and not computed here:
	// it refuses others as Usage.
	Put(ctx context.Context, id cluster.SnapshotID, index int64, data []byte, sum Sum) error
	// Complete ends the writing: blocks is the number of blocks that were put, sum that of Linear over them. EBS
	// refuses others. The snapshot is completed some time later: see ebs.Snapshots.
	Complete(ctx context.Context, id cluster.SnapshotID, blocks int64, sum Sum) error
}
