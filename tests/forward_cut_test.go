package tests

import (
	"encoding/json"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestPortForward_CutInHoldRecoverAndSweep breaks all port forwards in the middle of the hold, and of each half of the data phase. A cut
// that is shorter than the leases does no harm: the stores prove that they were held all the time. After a longer one the
// set of snapshots is thrown away.
func TestPortForward_CutInHoldRecoverAndSweep(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{DNSNames: true, Faults: faults, Scale: 20})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)

	for _, c := range []struct {
		name     string
		cut      time.Duration
		attempts int
	}{{string(firstBackup), 0, 1}, {"second", 5 * time.Second, 2}} {
		t.Run(c.name, func(t *testing.T) {
			cut := p.cutForwardsAt(faults, "ec2.CreateSnapshots", c.cut)
			e := p.run(t, "backup", prod.String(), "--name", c.name, "--storage", whole, "--via", "port-forward",
				"--lease", "3s", "--hold-attempts", "8", "--steady", "1s", "--marks", "off", "-o", "json")
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.True(t, cut(), "nothing was cut")
			var doc struct{ Report report.Report }
			require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
			require.NotNil(t, doc.Report.Hold)
			assert.GreaterOrEqual(t, doc.Report.Hold.Attempts, c.attempts, e.stderr)
			require.NotNil(t, doc.Report.Forward)
			assert.Greater(t, doc.Report.Forward.Connections, doc.Report.Forward.Pods, "the broken ones were opened again")
		})
	}

	for i, point := range []string{"tikv.*.RecoverRegion", "tikv.*.KvFlashbackToVersion"} {
		t.Run(point, func(t *testing.T) {
			target := cluster.Name{Namespace: "tidb", Name: []string{"copy-a", "copy-b"}[i]}
			cut := p.cutForwardsAt(faults, point, 0)
			e := p.run(t, "restore", string(firstBackup), "--to", target.String(), "--storage", whole, "--via", "port-forward")
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			assert.True(t, cut(), "nothing was cut")
		})
	}
}

// cutForwardsAt breaks all port forwards once, when a stand-in comes to a point, and lets none be opened for so long. The
// result shows whether it did.
func (p *place) cutForwardsAt(faults *fault.Plan, pattern string, length time.Duration) func() bool {
	var mu sync.Mutex
	var since time.Time
	held := !strings.HasPrefix(pattern, "ec2.") // a preflight calls EC2 too
	faults.Watch(func(point string) *fault.Rule {
		mu.Lock()
		defer mu.Unlock()
		if point == "kube.create.pods.portforward" && time.Since(since) < length {
			return &fault.Rule{Position: fault.Before, Code: "ServiceUnavailable"}
		}
		held = held || point == "pd.PauseScheduler"
		if ok, _ := path.Match(pattern, point); ok && held && since.IsZero() && p.bed.Kube.Forwards() > 0 {
			since = time.Now()
			p.bed.Kube.BreakForwards()
		}
		return nil
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !since.IsZero()
	}
}
