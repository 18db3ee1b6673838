package copyrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
)

// EC2 does not copy a snapshot in the archive tier: it is refused before the first change, with what it takes.
func TestRun_SourceIsInTheArchiveTier_RefusedWithWhatItTakes(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	require.NoError(t, l.from.server.ArchiveSnapshot(l.from.server.Snapshots()[1].ID))
	for _, run := range []func() error{
		func() error {
			_, err := copyrun.Estimate(t.Context(), l.deps(), l.options(backup, "run-1"))
			return err
		},
		func() error { _, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1")); return err },
	} {
		err := run()
		require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "1 of 2 snapshots cannot be copied: snap-")
		require.ErrorContains(t, err, "is in the archive tier")
		require.Contains(t, failure.HintOf(err), "up to 72 hours")
		require.Contains(t, failure.HintOf(err), "aws ec2 restore-snapshot-tier --region "+homeAt)
	}
	require.Empty(t, l.to.server.MutatingCalls())
	l.requireUnshared(t)
}

// The newest copy of a volume is in the archive tier: the next one is full, as it was announced.
func TestRun_NewestCopyIsInTheArchiveTier_NextIsAnnouncedAsFull(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.run(t, l.backup(t), "run-1")
	archived := l.to.server.Copies()[0]
	require.NoError(t, l.to.server.ArchiveSnapshot(archived.Snapshot))
	second := l.backup(t)
	result := l.run(t, second, "run-2")
	require.Contains(t, result.Plan.Text(), "1 in full")
	require.Contains(t, result.Plan.Text(), string(copyplan.Archived))
	var full []string
	for _, c := range l.to.server.Copies()[2:] {
		full = append(full, c.Full)
	}
	require.ElementsMatch(t, []string{ebstest.FullArchive, ""}, full)
	l.requireWhole(t, second)
}
