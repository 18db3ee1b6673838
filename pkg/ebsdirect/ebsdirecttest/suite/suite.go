// Package suite is the contract of package ebsdirect as tests. It runs against the stand-in in every build, and against
// other servers that speak the protocol where one is at hand.
package suite

import (
	"context"
	"crypto/rand"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Client is what is tested.
type Client interface {
	ebsdirect.Source
	ebsdirect.Target
}

// Subject is a client with an account that is the test's own.
type Subject struct {
	Client Client
	// EC2 describes the account's snapshots.
	EC2 interface {
		DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
	}
	// Run keeps the client tokens of tests in one account apart.
	Run string
	// Lacks names what the server is known not to do as AWS does; tests of these are skipped.
	Lacks []Trait
	// Patience bounds each wait.
	Patience time.Duration
}

// Trait is a part of AWS's behaviour that some servers lack.
type Trait string

// The traits that emulators were seen to lack.
const (
	TraitToken   Trait = "client token"
	TraitParent  Trait = "parents"
	TraitChanged Trait = "changed blocks"
	TraitSums    Trait = "checksums that are checked"
	TraitStates  Trait = "states that are checked"
	TraitMissing Trait = "errors of missing snapshots"
	TraitOrder   Trait = "lists in the order of indexes"
	TraitFrom    Trait = "lists from an index on"
)

// Traits lists them all.
func Traits() []Trait {
	return []Trait{TraitToken, TraitParent, TraitChanged, TraitSums, TraitStates, TraitMissing, TraitOrder, TraitFrom}
}

func (s Subject) needs(t *testing.T, traits ...Trait) {
	t.Helper()
	for _, trait := range traits {
		if slices.Contains(s.Lacks, trait) {
			t.Skipf("the server lacks: %s", trait)
		}
	}
}

// Run runs the whole contract. Create is called once for each test.
func Run(t *testing.T, create func(t *testing.T) Subject) {
	tests := map[string]func(*testing.T, Subject){
		"Written_ReadBack_SameBlocks":        readBack,
		"Blocks_PutInAnyOrder_InOrder":       anyOrder,
		"Start_NotCompleted_Pending":         pending,
		"Blocks_FromAnIndex_TheRest":         fromIndex,
		"Blocks_NonePut_None":                empty,
		"Start_Tagged_DescribedSo":           tagged,
		"Start_SameToken_SameSnapshot":       startTwice,
		"Start_TokenForOthers_Conflict":      startMismatch,
		"Start_ParentAndKey_Usage":           parentAndKey,
		"Start_NoToken_Usage":                noToken,
		"Parent_BlocksNotPut_Inherited":      inherited,
		"Changed_ParentAndChild_WhatWasPut":  changed,
		"Changed_OtherLineage_Usage":         unrelated,
		"Put_OtherSum_Usage":                 putWrong,
		"Put_Completed_Usage":                putLate,
		"Complete_OtherCountOrSum_Usage":     completeWrong,
		"Complete_Twice_Succeeds":            completeTwice,
		"Blocks_Pending_Usage":               readEarly,
		"UnknownSnapshot_EveryCall_NotFound": nowhere,
		"Read_BufferOfAnotherSize_Usage":     readShort,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

// Block is a block filled with a pattern of n.
func Block(n byte) []byte {
	b := make([]byte, ebsdirect.BlockSize)
	for i := range b {
		b[i] = n ^ byte(i>>9)
	}
	return b
}

func (s Subject) start(t *testing.T, change ...func(*ebsdirect.NewSnapshot)) cluster.SnapshotID {
	t.Helper()
	n := ebsdirect.NewSnapshot{SizeGiB: 1, Token: ebsdirect.Token(s.Run, t.Name())}
	for _, c := range change {
		c(&n)
	}
	id, err := s.Client.Start(t.Context(), n)
	require.NoError(t, err)
	require.NotEmpty(t, id)
	return id
}

// put puts blocks and returns what Complete needs.
func (s Subject) put(t *testing.T, id cluster.SnapshotID, blocks map[int64][]byte) ebsdirect.Linear {
	t.Helper()
	var all ebsdirect.Linear
	indexes := slices.Sorted(keys(blocks))
	for _, index := range indexes {
		require.NoError(t, s.Client.Put(t.Context(), id, index, blocks[index], ebsdirect.SumOf(blocks[index])))
		require.NoError(t, all.Add(index, ebsdirect.SumOf(blocks[index])))
	}
	return all
}

func keys(blocks map[int64][]byte) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for index := range blocks {
			if !yield(index) {
				return
			}
		}
	}
}

// complete completes a snapshot and waits until it is.
func (s Subject) complete(t *testing.T, id cluster.SnapshotID, all ebsdirect.Linear) {
	t.Helper()
	require.NoError(t, s.Client.Complete(t.Context(), id, all.Blocks(), all.Sum()))
	require.Eventually(t, func() bool {
		found, err := s.EC2.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
		return err == nil && len(found) == 1 && found[0].State == ebs.SnapshotCompleted
	}, s.Patience, 5*time.Millisecond, "the snapshot completes")
}

func (s Subject) written(
	t *testing.T, blocks map[int64][]byte, change ...func(*ebsdirect.NewSnapshot),
) cluster.SnapshotID {
	t.Helper()
	id := s.start(t, change...)
	s.complete(t, id, s.put(t, id, blocks))
	return id
}

// read reads all listed blocks.
func (s Subject) read(t *testing.T, list iter.Seq2[ebsdirect.Block, error]) map[int64][]byte {
	t.Helper()
	got, last := map[int64][]byte{}, int64(-1)
	for b, err := range list {
		require.NoError(t, err)
		require.Greater(t, b.Index, last, "ascending")
		last = b.Index
		data := make([]byte, ebsdirect.BlockSize)
		sum, err := s.Client.Read(t.Context(), b, data)
		require.NoError(t, err)
		require.Equal(t, ebsdirect.SumOf(data), sum)
		got[b.Index] = data
	}
	return got
}

func readBack(t *testing.T, s Subject) {
	blocks := map[int64][]byte{0: Block(1), 5: Block(2), 2047: Block(3)}
	id := s.written(t, blocks)
	require.Equal(t, blocks, s.read(t, s.Client.Blocks(t.Context(), id, 0)))
	size, err := s.Client.SizeGiB(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 1, size)
}

func anyOrder(t *testing.T, s Subject) {
	s.needs(t, TraitOrder)
	id := s.start(t)
	last, first := ebsdirect.SumOf(Block(2)), ebsdirect.SumOf(Block(1))
	require.NoError(t, s.Client.Put(t.Context(), id, 9, Block(2), last))
	require.NoError(t, s.Client.Put(t.Context(), id, 4, Block(1), first))
	var all ebsdirect.Linear
	require.NoError(t, all.Add(4, first))
	require.NoError(t, all.Add(9, last))
	s.complete(t, id, all)
	require.Equal(t, map[int64][]byte{4: Block(1), 9: Block(2)}, s.read(t, s.Client.Blocks(t.Context(), id, 0)))
}

func pending(t *testing.T, s Subject) {
	s.needs(t, TraitStates)
	found, err := s.EC2.DescribeSnapshots(t.Context(), []cluster.SnapshotID{s.start(t)})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, ebs.SnapshotPending, found[0].State)
}

func fromIndex(t *testing.T, s Subject) {
	s.needs(t, TraitFrom)
	id := s.written(t, map[int64][]byte{1: Block(1), 5: Block(2), 9: Block(3)})
	require.Equal(t, map[int64][]byte{5: Block(2), 9: Block(3)}, s.read(t, s.Client.Blocks(t.Context(), id, 2)))
	for b, err := range s.Client.Blocks(t.Context(), id, 0) {
		require.NoError(t, err)
		require.EqualValues(t, 1, b.Index)
		break // a caller that has enough
	}
}

func empty(t *testing.T, s Subject) {
	id := s.written(t, nil)
	require.Empty(t, s.read(t, s.Client.Blocks(t.Context(), id, 0)))
}

func tagged(t *testing.T, s Subject) {
	tags := ebs.Tags{ebs.TagRun: "run-1", ebs.TagRole: "data"}
	id := s.start(t, func(n *ebsdirect.NewSnapshot) { n.Tags = tags })
	found, err := s.EC2.DescribeSnapshots(t.Context(), []cluster.SnapshotID{id})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, tags, found[0].Tags)
	require.EqualValues(t, 1, found[0].SizeGiB)
}

func startTwice(t *testing.T, s Subject) {
	s.needs(t, TraitToken)
	require.Equal(t, s.start(t), s.start(t))
}

func startMismatch(t *testing.T, s Subject) {
	s.needs(t, TraitToken)
	s.start(t)
	_, err := s.Client.Start(t.Context(), ebsdirect.NewSnapshot{SizeGiB: 2, Token: ebsdirect.Token(s.Run, t.Name())})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

// Without one, a try whose answer is lost would leave an unknown snapshot.
func noToken(t *testing.T, s Subject) {
	_, err := s.Client.Start(t.Context(), ebsdirect.NewSnapshot{SizeGiB: 1})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func parentAndKey(t *testing.T, s Subject) {
	for _, n := range []ebsdirect.NewSnapshot{
		{Token: rand.Text(), SizeGiB: 1, Parent: "snap-0123456789abcdef0", Encrypted: true},
		{Token: rand.Text(), SizeGiB: 1, Parent: "snap-0123456789abcdef0", KMSKey: "arn:aws:kms:us-west-2:123456789012:key/k"},
	} {
		_, err := s.Client.Start(t.Context(), n)
		require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	}
}

// family is a snapshot with blocks 1, 2, 3, and its child with another 2, 3 put as zeros, and 4.
func (s Subject) family(t *testing.T) (parent, child cluster.SnapshotID) {
	t.Helper()
	parent = s.written(t, map[int64][]byte{1: Block(1), 2: Block(2), 3: Block(3)})
	blocks := map[int64][]byte{2: Block(20), 3: make([]byte, ebsdirect.BlockSize), 4: Block(40)}
	child = s.written(t, blocks, func(n *ebsdirect.NewSnapshot) {
		n.Parent, n.Token = parent, ebsdirect.Token(s.Run, t.Name()+" child")
	})
	return parent, child
}

func inherited(t *testing.T, s Subject) {
	s.needs(t, TraitParent)
	_, child := s.family(t)
	want := map[int64][]byte{1: Block(1), 2: Block(20), 3: make([]byte, ebsdirect.BlockSize), 4: Block(40)}
	got := s.read(t, s.Client.Blocks(t.Context(), child, 0))
	require.Equal(t, want, got)
}

func changed(t *testing.T, s Subject) {
	s.needs(t, TraitParent, TraitChanged)
	parent, child := s.family(t)
	want := map[int64][]byte{2: Block(20), 3: make([]byte, ebsdirect.BlockSize), 4: Block(40)}
	require.Equal(t, want, s.read(t, s.Client.Changed(t.Context(), parent, child, 0)))
	delete(want, 2)
	require.Equal(t, want, s.read(t, s.Client.Changed(t.Context(), parent, child, 3)))
	require.Empty(t, s.read(t, s.Client.Changed(t.Context(), child, child, 0)))
}

func unrelated(t *testing.T, s Subject) {
	s.needs(t, TraitChanged)
	a := s.written(t, nil)
	b := s.written(t, nil, func(n *ebsdirect.NewSnapshot) { n.Token += "b" })
	for _, err := range s.Client.Changed(t.Context(), a, b, 0) {
		require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
		require.NotEmpty(t, failure.HintOf(err))
		return
	}
	t.Fatal("no error")
}

func putWrong(t *testing.T, s Subject) {
	s.needs(t, TraitSums)
	id := s.start(t)
	err := s.Client.Put(t.Context(), id, 1, Block(1), ebsdirect.SumOf(Block(2)))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	short := Block(1)[:4096]
	err = s.Client.Put(t.Context(), id, 1, short, ebsdirect.SumOf(short))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	s.complete(t, id, ebsdirect.Linear{})
	require.Empty(t, s.read(t, s.Client.Blocks(t.Context(), id, 0)))
}

func putLate(t *testing.T, s Subject) {
	s.needs(t, TraitStates)
	id := s.written(t, nil)
	err := s.Client.Put(t.Context(), id, 1, Block(1), ebsdirect.SumOf(Block(1)))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func completeWrong(t *testing.T, s Subject) {
	s.needs(t, TraitSums)
	id := s.start(t)
	all := s.put(t, id, map[int64][]byte{1: Block(1), 2: Block(2)})
	for _, err := range []error{
		s.Client.Complete(t.Context(), id, 1, all.Sum()),
		s.Client.Complete(t.Context(), id, 2, ebsdirect.SumOf(Block(1))),
	} {
		require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	}
	s.complete(t, id, all)
}

func completeTwice(t *testing.T, s Subject) {
	id := s.start(t)
	all := s.put(t, id, map[int64][]byte{1: Block(1)})
	s.complete(t, id, all)
	s.complete(t, id, all)
}

func readEarly(t *testing.T, s Subject) {
	s.needs(t, TraitStates)
	id := s.start(t)
	_, err := s.Client.SizeGiB(t.Context(), id)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func nowhere(t *testing.T, s Subject) {
	s.needs(t, TraitMissing)
	const id = cluster.SnapshotID("snap-0123456789abcdef0")
	_, size := s.Client.SizeGiB(t.Context(), id)
	_, parent := s.Client.Start(t.Context(), ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1, Parent: id})
	for _, err := range []error{
		size, parent, s.Client.Put(t.Context(), id, 0, Block(1), ebsdirect.SumOf(Block(1))),
		s.Client.Complete(t.Context(), id, 0, ebsdirect.Sum{}),
	} {
		require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	}
}

func readShort(t *testing.T, s Subject) {
	_, err := s.Client.Read(t.Context(), ebsdirect.Block{}, make([]byte, 4096))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}
