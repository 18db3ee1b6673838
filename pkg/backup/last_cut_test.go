package backup_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Point 35: the snapshots of a run that failed are deleted, so that EC2 shows none, and its journal records when they were.
func TestSetOfAFailedRun_IsKnownByItsJournal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begin := time.Now()
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 3, Code: "UnauthorizedOperation"})
	o := r.options()
	o.HoldAttempts = 1
	_, err := r.run(t.Context(), t, o)
	require.Error(t, err)
	require.Empty(t, r.bed.EC2.Snapshots())
	at, err := backup.LastCut(t.Context(), r.store, o.Cluster, "next", begin)
	require.NoError(t, err)
	require.True(t, at.After(begin), "the failed run has cut")
	require.True(t, at.Before(time.Now()))
	for name, row := range map[string]struct {
		cluster cluster.Name
		self    cluster.RunID
		since   time.Time
	}{
		"another cluster":    {cluster.Name{Namespace: "tidb", Name: "other"}, "next", begin},
		"the run's own":      {o.Cluster, o.Run, begin},
		"longer ago than it": {o.Cluster, "next", at.Add(time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			none, err := backup.LastCut(t.Context(), r.store, row.cluster, row.self, row.since)
			require.NoError(t, err)
			require.Zero(t, none)
		})
	}
}

// justFailed is an EC2 that shows no snapshot at the moment at which another run's journal records that its cut failed.
type justFailed struct {
	backup.EBS
	fail func(context.Context) error
}

func (e justFailed) NewestSnapshots(ctx context.Context, _ []cluster.VolumeID, _ time.Time) (map[cluster.VolumeID]time.Time, error) {
	return nil, e.fail(ctx)
}

// Point 35: that is waited for before the hold, and not within it.
func TestRightAfterAFailedRun_WaitsBeforeTheHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	o.Steady = 3 * time.Second // no longer than that is waited for
	about, err := json.Marshal(journal.About{Operation: journal.Backup, Cluster: o.Cluster})
	require.NoError(t, err)
	r.deps.EBS = justFailed{r.deps.EBS, func(ctx context.Context) error {
		earlier := journal.NewStoreJournal(r.store, manifest.JournalPrefix("earlier"))
		for i, record := range []phase.Record{
			{Type: phase.RecordRun, Data: about}, {Type: phase.RecordIntent, Step: "cut", Name: journal.IntentCreateSnapshots, Data: json.RawMessage("{}")},
			{Type: phase.RecordFailed, Step: "cut"},
		} {
			record.Seq, record.Time, record.Run = i+1, time.Now(), "earlier"
			if err := earlier.Append(ctx, record); err != nil {
				return err
			}
		}
		return nil
	}}
	_, err = r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	messages := strings.Join(r.events.texts(), "\n")
	require.Contains(t, messages, "EC2 takes no second snapshot", "it is waited for")
	require.Contains(t, messages, "not held by this run")
}
