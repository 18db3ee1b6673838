package restore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// hiddenStore is a PD that leaves a store out of its list so many times.
type hiddenStore struct {
	restore.PD
	times *atomic.Int64
}

func (p hiddenStore) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	if err == nil && len(stores) > 0 && p.times.Add(-1) >= 0 {
		stores = stores[1:]
	}
	return stores, err
}

// atStep calls a function when a step begins and when it ends.
type atStep struct {
	step       string
	begin, end func()
	once       sync.Once
}

func (a *atStep) Emit(e phase.Event) {
	if e.Step != a.step {
		return
	}
	switch e.Type {
	case phase.StepStarted:
		a.once.Do(a.begin)
	case phase.StepFinished:
		a.end()
	default:
	}
}

// await-stores asks PD for what changed: Kubernetes is asked every few seconds why pods do not run, and for no volume and
// no node.
func TestRun_AwaitStores_AsksForNoVolumeAndNoNodeAtEachPoll(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const polls = 10
	points := []string{
		"kube.list.persistentvolumes", "kube.get.persistentvolumes", "kube.list.persistentvolumeclaims", "kube.get.persistentvolumeclaims",
		"kube.list.nodes", "kube.get.nodes",
	}
	var hidden atomic.Int64
	before, after := map[string]int{}, map[string]int{}
	count := func(into map[string]int) func() {
		return func() {
			for _, p := range append(points, "kube.list.pods") {
				into[p] = l.faults.Calls(p)
			}
		}
	}
	sink := &atStep{step: "await-stores", begin: func() { count(before)(); hidden.Store(polls) }, end: count(after)}
	deps, opts := l.next(t, sink)
	opts.Serial = true // so that no other step asks meanwhile
	open := deps.OpenPD
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		p, err := open(ctx, addresses)
		return hiddenStore{p, &hidden}, err
	}
	_, err := restore.Run(within(t), deps, opts)
	require.NoError(t, err)
	require.Negative(t, hidden.Load(), "it was polled")
	for _, p := range points {
		require.Equal(t, before[p], after[p], p)
	}
	require.Less(t, after["kube.list.pods"]-before["kube.list.pods"], 2*polls, "why pods do not run is asked every few seconds")
	require.Positive(t, before["kube.list.persistentvolumes"]+before["kube.get.persistentvolumes"]+before["kube.list.pods"], "the stand-in counts them")
}
