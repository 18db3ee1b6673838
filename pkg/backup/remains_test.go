package backup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A process that is terminated in the cut releases it, reports what it waits for, and names what it leaves when it has to go
// before EC2's late answer.
func TestRun_TerminatedDuringTheCut_ReportsTheWaitAndListsLeftovers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deps.Remains = new(phase.Remains)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var during []string
	var held bool
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 4, Position: fault.Stall, Do: func() {
		during, held = r.deps.Remains.Lines()
		cancel(&phase.StopError{Reason: errStop, UndoBy: time.Now().Add(8 * time.Second)})
	}})
	o := r.options()
	o.Visibility = 10 * time.Minute // far behind the bound of the undo
	_, err := r.run(ctx, t, o)
	require.ErrorIs(t, err, errStop)
	require.Empty(t, r.faults.Unreached())
	require.Empty(t, r.held(t.Context()))

	const removal = "tisnap.io/run=run-1, and tisnap gc --storage "
	assert.True(t, held)
	in := strings.Join(during, "\n")
	for _, want := range []string{
		"run run-1 of backup b-1", "cluster tidb/prod is still held by run run-1: leases and import suspensions on 3 stores", "schedulers",
		"GC (service tisnap-run-1)", "tisnap release tidb/prod --storage", "requests", removal,
	} {
		assert.Contains(t, in, want)
	}
	assert.Contains(t, strings.Join(r.events.texts(), "\n"), "waiting until ")
	assert.Contains(t, strings.Join(r.events.texts(), "\n"), removal)
	assert.Contains(t, err.Error(), "undo cut")
	assert.Contains(t, failure.HintOf(err), "tisnap gc --storage ")
	after, held := r.deps.Remains.Lines()
	assert.False(t, held)
	assert.Contains(t, strings.Join(after, "\n"), removal)
	assert.Contains(t, strings.Join(after, "\n"), "what EC2 still makes of ")
	assert.NotContains(t, strings.Join(after, "\n"), "snapshots (", "what was made is deleted")
	assert.NotContains(t, strings.Join(after, "\n"), "run run-1 of backup", "the lock is free")
}

// What is sealed or undone is not named as left.
func TestRun_Ended_NothingIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deps.Remains = new(phase.Remains)
	_, err := r.run(t.Context(), t, r.options())
	require.NoError(t, err)
	lines, held := r.deps.Remains.Lines()
	assert.Empty(t, lines)
	assert.False(t, held)
}
