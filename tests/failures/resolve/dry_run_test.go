package resolve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// A dry run after a kill announces what the same command does without it: it resumes the run. It was refused, as the
// cluster exists, and sent people to delete what the command finishes.
func TestDryRunAfterAKill_AnnouncesThatTheRunIsResumed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	p.killAt(t, name, fault.Rule{Point: "tikv.*.ReadRegionMeta"}, "restore", round.BackupID, "--to", name.String())
	p.faults.Clear()
	alive := p.restore(t, name, "--dry-run", "--lock-wait", "0s")
	require.Equal(t, exitConflict, alive.code, "its lock was renewed a moment ago: %s", alive)
	require.Contains(t, alive.stderr, "is under way")

	store, err := objstore.Open(t.Context(), round.Storage, objstore.Config{Region: testbed.Region, Endpoint: p.Bed().AWS()})
	require.NoError(t, err)
	lock, _, err := runlock.Read(t.Context(), store, name)
	require.NoError(t, err)
	require.NoError(t, runlock.Break(t.Context(), store, name, lock.Epoch))
	before := p.Bed().MutatingCalls()
	planned := p.restore(t, name, "--dry-run")
	require.Zero(t, planned.code, planned.String())
	require.Contains(t, planned.stdout, `"kind": "ResumePlan"`)
	require.Contains(t, planned.stdout, `"step": "`)
	require.Equal(t, lock.Owner.Run, planned.doc.Run)
	require.Equal(t, before, p.Bed().MutatingCalls())

	other := p.restore(t, name, "--dry-run", "--run-id", string(lock.Owner.Run), "--volume-iops", "5000")
	require.Equal(t, exitConflict, other.code, other.String())
	require.Contains(t, other.stderr, "another request", "the command would refuse it, too")

	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	require.Equal(t, planned.doc.Run, e.doc.Run)
	p.verify(t, name)
	again := p.restore(t, name, "--dry-run")
	require.NotZero(t, again.code, "there is nothing left to resume: %s", again)
}
