package tests

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/testbed"
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
