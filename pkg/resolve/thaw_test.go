package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// thawInPart: what PD does not let go keeps nothing else from being let go, and the next thaw finds the rest. A scheduler
// that a new leader of PD does not have yet is not paused: it is no error.
func thawInPart(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	r, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "pd.ResumeScheduler", Code: "[PD:scheduler:ErrSchedulerNotFound]scheduler not found", Times: 1}))
	require.NoError(t, l.faults.Add(fault.Rule{Point: "pd.DropTTLConfig", Code: "403", Times: -1}))
	err = r.Thaw(within(t), nil)
	require.ErrorContains(t, err, "restore limits")
	require.NotContains(t, err.Error(), "scheduler not found")
	require.NotEmpty(t, l.pd.TTLConfigs())
	require.NotContains(t, l.pd.ServiceSafePoints(), "tisnap-run", "GC is let go all the same")
	paused := 0
	for _, s := range l.pd.Schedulers() {
		if !s.PausedAt.IsZero() {
			paused++
		}
	}
	require.LessOrEqual(t, paused, 1, "the one that PD said it does not have, at most")

	l.faults.Clear()
	require.NoError(t, r.Thaw(within(t), nil))
	require.Empty(t, l.pd.TTLConfigs())
	for _, s := range l.pd.Schedulers() {
		require.Zero(t, s.PausedAt, s.Name)
	}
}
