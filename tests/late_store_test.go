package tests

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// lazy is a runtime that never starts the processes of some pods.
type lazy struct {
	kubetest.Runtime
	pods []string
}

func (l lazy) StartTiKV(ctx context.Context, p kubetest.TiKVPod) error {
	if slices.Contains(l.pods, p.Pod) {
		return nil
	}
	return l.Runtime.StartTiKV(ctx, p)
}

// Point 25: the hint about a store that never comes up is to do without it if, and only if, the others have a quorum of
// every region.
func TestStoreNeverComesUp_HintIsToDoWithoutItIfThereIsAQuorum(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 9, Scale: 10, Runtime: func(r kubetest.Runtime) kubetest.Runtime {
		return lazy{r, []string{"one-tikv-1", "kept-tikv-1", "two-tikv-1", "two-tikv-2"}}
	}})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	for target, row := range map[string]struct {
		more []string
		hint string // of group 1, the store that the error names
		not  string
	}{
		"one":  {nil, `every region has a quorum without them, so that they can be left out: tisnap restore first --to tidb/one --tolerate-store %s$`, "cannot do without"},
		"kept": {[]string{"--keep-on-failure"}, `every region has a quorum without them, so that they can be left out: tisnap resolve tidb/kept --backup first --tolerate-store %s$`, "cannot do without"},
		"two":  {nil, `the cluster cannot do without them: .*fewer than 2 of 3 replicas`, "--tolerate-store"},
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			args := []string{"restore", string(firstBackup), "--to", "tidb/" + target, "--storage", whole, "--timeout", "30s"}
			e := p.run(t, append(args, row.more...)...)
			require.Equal(t, cli.ExitCode(8), e.code, e.stderr)
			named := regexp.MustCompile(`stores? (\d+)(, \d+)? are not up`).FindStringSubmatch(e.line("error: "))
			require.NotNil(t, named, e.stderr)
			hint := e.line("hint: ")
			require.Regexp(t, regexp.MustCompile(`%s`).ReplaceAllString(row.hint, named[1]), hint)
			require.NotContains(t, hint, row.not)
		})
	}
}

// TiKV 8.5.7 sends nothing, until it restarts, to a store that PD did not know when it first wanted to (tikv/tikv#19980). A
// restore of all stores comes out whole all the same: PD knows each before the first region is led. One without a store
// says which pods to restart if that store returns, and then it gets all that it missed.
func TestTiKVBlocksUnknownStores_RestoresAreWhole_OneWithoutAStoreAfterRestarts(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{
		Nodes: 9, Scale: 10, Faults: faults, TiKV: tikvtest.Options{BlockUnknownStores: true},
		PD: pdtest.Config{Version: "8.5.7"},
	})
	source, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	e = p.run(t, "restore", string(firstBackup), "--to", "tidb/all", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stdout, "the backup is of TiKV 8.5.7, which sends nothing to a store that joins the cluster late")
	p.requireWhole(ctx, t, "all")

	late := source.Stores()[1].ID()
	require.NoError(t, faults.Add(fault.Rule{Point: fmt.Sprintf("tikv.%d.PutStore", late), Times: -1}))
	e = p.run(t, "restore", string(firstBackup), "--to", "tidb/part", "--storage", whole, "--tolerate-store", fmt.Sprint(late))
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stdout, "if one of them returns, restart the TiKV pods of the other stores")
	part := cluster.Name{Namespace: "tidb", Name: "part"}
	c := p.bed.Nodes.Cluster(part)
	others := c.Pods()
	require.Len(t, others, 2)
	faults.Clear() // it returns: Kubernetes has tried to start it ever since
	require.Eventually(t, func() bool { return len(c.Stores()) == 3 }, time.Minute, 10*time.Millisecond)
	blocks := func(pod string) bool { return c.Store(pod).Blocks(late) }
	require.True(t, slices.ContainsFunc(others, blocks), "it gets nothing from who leads a region")
	for _, pod := range others {
		require.NoError(t, p.bed.RestartStore(ctx, part, pod))
	}
	p.requireWhole(ctx, t, "part")
}

// requireWhole requires that a cluster's three stores have the same regions, and the same data of each.
func (p *place) requireWhole(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	c := p.bed.Nodes.Cluster(cluster.Name{Namespace: "tidb", Name: name})
	replicas, err := c.AwaitEqualReplicas(ctx)
	require.NoError(t, err)
	stores := c.Stores()
	require.Len(t, stores, 3)
	require.Equal(t, 3*len(stores[0].Peers()), replicas)
	for _, s := range stores {
		for id := range uint64(10) {
			require.False(t, s.Blocks(id), "store %d blocks store %d", s.ID(), id)
		}
	}
}
