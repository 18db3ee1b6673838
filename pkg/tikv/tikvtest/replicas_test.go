package tikvtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store's own data are seen whoever leads: equal where all is applied, and another after a write.
func TestReplicas_SettledStores_AreEqualAndChangeWithAWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(5))
	c.put(key(1))
	c.put(key(7))
	c.equalReplicas()
	before := c.stores[0].Replicas()
	c.client().put(key(7), []byte("another"))
	c.equalReplicas()
	after := c.stores[0].Replicas()
	require.Len(t, after, 2)
	changed := 0
	for i := range after {
		if after[i].Sum != before[i].Sum {
			changed++
		}
	}
	require.Equal(t, 1, changed, "of the region that was written to alone")
}

func (c *testCluster) equalReplicas() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		first := c.stores[0].Replicas()
		for _, s := range c.stores[1:] {
			own := s.Replicas()
			if len(own) != len(first) {
				return false
			}
			for i := range own {
				if own[i] != first[i] {
					return false
				}
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
}
