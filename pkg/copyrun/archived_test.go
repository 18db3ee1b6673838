package copyrun_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
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

// The newest copy of a volume was deleted: the next one is full, as it was announced, also if the answer to the request for
// the deleted one was lost, and if no copy is left. An older one that was deleted changes nothing.
func TestRun_NewestCopyWasDeleted_NextIsAnnouncedAsFull(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		delete []int // of the copies, which are by their age
		lost   bool  // the answers to the last run's requests
		full   []string
	}{
		"the newest of a volume":              {[]int{2}, false, []string{"", ebstest.FullDeleted}},
		"the newest of all":                   {[]int{2, 3}, false, []string{ebstest.FullDeleted, ebstest.FullDeleted}},
		"the newest, whose answers were lost": {[]int{2, 3}, true, []string{ebstest.FullDeleted, ebstest.FullDeleted}},
		"all":                                 {[]int{0, 1, 2, 3}, false, []string{ebstest.FullDeleted, ebstest.FullDeleted}},
		"an older one":                        {[]int{0}, false, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 2, hiding)
			l.run(t, l.backup(t), "run-1")
			if row.lost {
				l.loseAnswers(2)
			}
			l.run(t, l.backup(t), "run-2")
			for _, n := range row.delete {
				require.NoError(t, l.to.client.DeleteSnapshot(t.Context(), l.to.server.Copies()[n].Snapshot))
			}
			result := l.run(t, l.backup(t), "run-3")
			var full []string
			for _, c := range l.to.server.Copies()[4:] {
				full = append(full, c.Full)
			}
			require.ElementsMatch(t, row.full, full)
			planned := 0
			for _, c := range result.Plan.Copies {
				if c.Full != copyplan.Incremental {
					require.Equal(t, copyplan.Deleted, c.Full)
					planned++
				}
			}
			require.Equal(t, len(slices.DeleteFunc(full, func(why string) bool { return why == "" })), planned)
			require.Equal(t, planned > 0, strings.Contains(result.Plan.Text(), "(the newest copy of the volume was deleted)"))
		})
	}
}

// EC2 accepted the newest copy, which then failed and was deleted: the one before it counts.
func TestRun_NewestCopyFailed_NextIsIncremental(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.run(t, l.backup(t), "run-1")
	require.NoError(t, l.to.faults.Add(fault.Rule{Point: "ec2.CopySnapshot.late", Position: fault.Before, Times: 3}))
	_, err := copyrun.Run(t.Context(), l.deps(), l.options(l.backup(t), "run-2"))
	require.ErrorContains(t, err, "failed 3 times")
	require.Equal(t, copyplan.Incremental, l.run(t, l.backup(t), "run-3").Plan.Copies[0].Full)
	copies := l.to.server.Copies()
	require.Empty(t, copies[len(copies)-1].Full, "as EC2 reports it")
}

// What a run completed counts also if it did not complete the rest: while it exists, and after gc has deleted it.
func TestRun_NewestCopyIsOfAnUnfinishedRun_CountsAsEC2CountsIt(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"exists": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 2)
			l.run(t, l.backup(t), "run-1")
			require.NoError(t, l.to.faults.Add(fault.Rule{Point: "ec2.CopySnapshot.late", Position: fault.Before, Nth: 2, Times: 3}))
			_, err := copyrun.Run(t.Context(), l.deps(), l.options(l.backup(t), "run-2"))
			require.ErrorContains(t, err, "failed 3 times")
			for _, s := range l.to.server.Snapshots() {
				if deleted && s.Tags[ebs.TagRun] == "run-2" {
					require.NoError(t, l.to.client.DeleteSnapshot(t.Context(), s.ID))
				}
			}
			begun := len(l.to.server.Copies())
			var planned, want []string
			for _, c := range l.run(t, l.backup(t), "run-3").Plan.Copies {
				planned = append(planned, string(c.Full))
			}
			for _, c := range l.to.server.Copies()[begun:] {
				full := map[string]copyplan.Reason{ebstest.FullDeleted: copyplan.Deleted}[c.Full]
				want = append(want, string(full))
			}
			require.ElementsMatch(t, want, planned, "as EC2 reports it")
			require.Equal(t, deleted, slices.Contains(planned, string(copyplan.Deleted)))
		})
	}
}

// The journals serve an estimate alone: a copy is made without them, too.
func TestRun_JournalsCannotBeRead_PlannedWithout(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.run(t, l.backup(t), "run-1")
	backup := l.backup(t)
	reported := &notes{}
	deps := l.deps()
	deps.To, deps.Sink = unlisted{deps.To}, reported
	_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-2"))
	require.NoError(t, err)
	require.Contains(t, reported.text, "earlier copies that were deleted are unknown")
	l.requireWhole(t, backup)
}

// unlisted is a storage whose runs cannot be listed.
type unlisted struct{ objstore.Store }

func (s unlisted) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	if prefix == manifest.RunsPrefix {
		return nil, failure.New(failure.Denied, "list", prefix, "no")
	}
	return s.Store.List(ctx, prefix)
}

// A copy of the volume that came later, for another storage, takes the place of a deleted one.
func TestRun_NewerCopyIsOfAnotherStorage_NextIsIncremental(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.run(t, l.backup(t), "run-1")
	require.NoError(t, l.to.client.DeleteSnapshot(t.Context(), l.to.server.Copies()[0].Snapshot))
	to := *l.to
	to.store, to.url = objstoretest.NewMemory(nil), "s3://"+awayAt+"/other"
	other := &lab{topology: l.topology, made: l.made, from: l.from, to: &to}
	other.run(t, other.backup(t), "run-2")
	l.made = other.made
	require.Equal(t, copyplan.Incremental, l.run(t, l.backup(t), "run-3").Plan.Copies[0].Full)
	require.Empty(t, l.to.server.Copies()[2].Full, "as EC2 reports it")
}
