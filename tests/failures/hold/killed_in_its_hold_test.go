package hold_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// states are those of all runs in the storage, by `tisnap runs list`.
func (p *place) states(t *testing.T) map[string]runs.State {
	t.Helper()
	e := p.run(within(t, time.Minute), "runs", "list", "-o", "json")
	require.Zero(t, e.code, e.String())
	var doc struct{ Items []runs.Run }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc), e.String())
	out := map[string]runs.State{}
	for _, r := range doc.Items {
		out[string(r.ID)] = r.State
	}
	return out
}

// described requires what `tisnap runs describe` prints about a resumed run.
func (p *place) described(t *testing.T, run string, want runs.State) {
	t.Helper()
	e := p.run(within(t, time.Minute), "runs", "describe", run, "-o", "json")
	require.Zero(t, e.code, e.String())
	var r runs.Run
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &r), e.String())
	require.Equal(t, want, r.State)
	require.Len(t, r.Processes, 2)
	require.Equal(t, "cut", r.Processes[0].Step, "it was killed there")
	require.Positive(t, r.Processes[1].GapSeconds)
	require.Empty(t, r.Processes[1].Step)
	require.False(t, r.Processes[1].Start.Before(r.Processes[0].End))
	e = p.run(within(t, time.Minute), "runs", "describe", run)
	require.Zero(t, e.code, e.String())
	require.Regexp(t, `run `+run+`: backup of `+prod.String()+`, .*: `+string(want), e.stdout)
	require.Regexp(t, `(?m)^1 .* cut\s*$`, e.stdout)
	require.Regexp(t, `(?m)^2 `, e.stdout)
}

// reportsBoth requires that the report has the process that was killed, this one, and the time between them.
func reportsBoth(t *testing.T, stdout string) {
	t.Helper()
	var doc struct{ Report report.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &doc), stdout)
	r := doc.Report
	require.Len(t, r.Processes, 2)
	require.Equal(t, "cut", r.Processes[0].Step)
	require.Positive(t, r.Processes[1].GapSeconds)
	require.Greater(t, r.WallSeconds, r.InSteps(), "the gap is in it")
}

// It kills a backup that leaves its cluster held for more than a minute (velero#4503, velero#3852): nothing shows that it is in
// progress, the next start of the command releases what it had paused, and no run stays open.
// Catalogue: H1.
func TestBackupKilledInItsHold_IsAdoptedOrEndedByTheNextStart(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]struct {
		args []string
		want map[string]runs.State
	}{
		"the same command adopts it": {
			[]string{"backup", prod.String(), "-o", "json", "--max-hold", "30s", "--timeout", "1m", "--pending-quota", "5000", "--steady", "1s", "--name", "a"},
			map[string]runs.State{"dead": runs.Done},
		},
		"abort ends it": {[]string{"runs", "abort", "dead", "--yes"}, map[string]runs.State{"dead": runs.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3, func(c *testbed.Config) { c.Rules.SnapshotSpacing, c.StaticRegions = 0, 4 })
			p.killedBackup(t, "journal.begin.cut", fault.After, "--name", "a", "--run-id", "dead", "--lease", "90s")
			require.NotEmpty(t, p.c.Held())
			p.expire(t)
			require.Equal(t, map[string]runs.State{"dead": runs.Unfinished}, p.states(t))
			e := p.run(within(t, 2*time.Minute), next.args...)
			require.Zero(t, e.code, e.String())
			p.nothingHeld(t) // although the dead process's leases run for a minute and more
			require.Equal(t, next.want, p.states(t))
			if next.want["dead"] == runs.Done {
				p.described(t, "dead", runs.Done)
				reportsBoth(t, e.stdout)
			}
		})
	}
}
