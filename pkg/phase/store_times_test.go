package phase_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

func TestStoreTimes_LongestOfEachPart_ByStore(t *testing.T) {
	t.Parallel()
	times := new(phase.StoreTimes)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			times.Note(7, "volume", time.Duration(i)*time.Second)
			times.Note(2, "pod", -time.Second)
		})
	}
	wg.Wait()
	require.Equal(t, []phase.StoreParts{
		{Store: 2, Parts: []phase.Part{{Name: "pod"}}},
		{Store: 7, Pod: "tikv-1", Parts: []phase.Part{{Name: "volume", Seconds: 9}}},
	}, times.Stores(map[cluster.StoreID]string{7: "tikv-1"}))
}

func TestStoreTimes_Nil_CollectsNothing(t *testing.T) {
	t.Parallel()
	var times *phase.StoreTimes
	times.Note(1, "volume", time.Second)
	require.Nil(t, times.Stores(nil))
}
