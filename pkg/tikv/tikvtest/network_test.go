package tikvtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TiKV 8.5.7 takes a store that PD does not know yet for a removed one, and sends it nothing until it restarts
// (tikv/tikv#19980).
func TestFacts_StoreThatPDDoesNotKnowYet_IsSentNothingUntilTheSenderRestarts(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	sender := func(blocks bool) *Store {
		return &Store{clusterID: 7, id: 1, opts: Options{BlockUnknownStores: blocks}}
	}
	faulty, sound := sender(true), sender(false)
	n.join(&Store{clusterID: 7, id: 2})
	require.False(t, n.blocks(faulty, 2), "PD knows it")
	require.True(t, n.blocks(faulty, 3))
	require.False(t, n.blocks(sound, 3))

	late := &Store{clusterID: 7, id: 3}
	n.attach(late)
	require.True(t, n.blocks(sender(true), 3), "it runs, and PD does not know it yet")
	n.join(late)
	require.True(t, n.blocks(faulty, 3), "it has joined, too late")
	require.False(t, n.blocks(sound, 3))
	n.detach(late)
	require.False(t, n.blocks(sender(true), 3), "after a restart, and PD knows one that is down, too")
}
