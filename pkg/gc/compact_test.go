package gc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// adds appends records to the journal of a run that died, up to number n.
func (p *place) adds(t *testing.T, run cluster.RunID, n int, last phase.RecordType) {
	t.Helper()
	j := journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix(run))
	for seq := 2; seq <= n; seq++ {
		r := phase.Record{Seq: seq, Run: run, Time: time.Now(), Type: phase.RecordBegin, Step: "wait"}
		if seq == n {
			r.Type = last
		}
		require.NoError(t, j.Append(t.Context(), r))
	}
}

func (p *place) records(t *testing.T, run cluster.RunID) int {
	t.Helper()
	objects, err := p.deps.Store.List(t.Context(), manifest.JournalPrefix(run))
	require.NoError(t, err)
	return len(objects)
}

func TestCollect_JournalsOfEndedRuns_AreCompacted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.died(t, "ended", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "other"})
	p.adds(t, "ended", 9, phase.RecordEnd)
	p.died(t, "unfinished", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "third"})
	p.adds(t, "unfinished", 9, phase.RecordBegin)

	for name, o := range map[string]Options{"a dry run": {DryRun: true, Rate: 100}, "too young": {OlderThan: time.Hour, Rate: 100}} {
		report, err := Collect(t.Context(), p.deps, o)
		require.NoError(t, err, name)
		require.Zero(t, report.Compacted, name)
		require.Equal(t, 9, p.records(t, "ended"), name)
	}
	for _, want := range []int{1, 0} {
		report, err := Collect(t.Context(), p.deps, Options{Rate: 100})
		require.NoError(t, err)
		assert.Equal(t, want, report.Compacted)
		assert.Equal(t, 2, p.records(t, "ended"))
		assert.Equal(t, 9, p.records(t, "unfinished"), "it may be continued")
	}
	h, err := phase.ReadHistory(t.Context(), journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix("ended")))
	require.NoError(t, err)
	assert.Len(t, h.Records, 9)
	assert.True(t, h.Ended)
}

// A removal that was interrupted may have left a journal without its first record: that ends no gc of some clusters.
func TestCollect_FirstRecordOfAJournalIsGone_IsNoError(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.died(t, "ended", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "other"})
	p.adds(t, "ended", 9, phase.RecordEnd)
	require.NoError(t, p.deps.Store.Delete(t.Context(), manifest.JournalKey("ended", 1)))
	_, err := compactJournals(t.Context(), p.deps, Options{Of: []cluster.Name{prod}}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 8, p.records(t, "ended"))
}
