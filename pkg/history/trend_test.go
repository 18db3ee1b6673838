package history_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func night(i int, snapshots float64) history.Run {
	return history.Run{
		Key: fmt.Sprintf("reports/b%d/run-%d.json", i, i), Operation: report.Backup, Run: cluster.RunID(fmt.Sprint("run-", i)),
		Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Outcome: phase.Done, Started: epoch.AddDate(0, 0, i), Seconds: snapshots + 5,
		HoldSeconds: 2, DataBytes: int64(1000 + 10*i), Phases: []history.Phase{{Name: report.VolumeSnapshots, Seconds: snapshots}, {Name: "seal", Seconds: 5}},
	}
}

func TestNewTrend_NamesWhatBecameSlowerAndInWhichPhase(t *testing.T) {
	t.Parallel()
	var runs []history.Run
	for i := range 8 {
		runs = append(runs, night(i, 100+float64(i%3)))
	}
	steady := history.NewTrend(runs, epoch)
	require.Empty(t, steady.Series[0].Slower)
	failed := night(8, 3)
	failed.Outcome, failed.ErrorKind = phase.Failed, "limited"
	runs = append(runs, failed, night(9, 200))
	trend := history.NewTrend(append(runs, history.Run{Key: "odd", Problem: "x"}), epoch)
	require.Equal(t, []string{"odd"}, trend.Unreadable)
	s := trend.Series[0]
	require.Equal(t, 9, s.Done)
	require.Equal(t, map[string]int{"limited": 1}, s.Failed)
	require.InDelta(t, 106, s.Seconds.Median, 0.1)
	require.Equal(t, history.Spread{Median: 2, Most: 2, Last: 2}, *s.HoldSeconds)
	require.Len(t, s.Slower, 2)
	require.Equal(t, report.VolumeSnapshots, s.Slower[0].Phase)
	require.InDelta(t, 101, s.Slower[0].Median, 0.1)
	require.Equal(t, "total", s.Slower[1].Phase)
	require.EqualValues(t, 10, s.Points[1].GrownBytes)
}

func TestNewTrend_FewRuns_JudgesNothing(t *testing.T) {
	t.Parallel()
	trend := history.NewTrend([]history.Run{night(0, 1), night(1, 1), night(2, 500)}, epoch)
	require.Empty(t, trend.Series[0].Slower)
	require.Empty(t, history.NewTrend(nil, epoch).Series)
}

func TestSaveAndLoad_ReadsNothingTwice(t *testing.T) {
	t.Parallel()
	store := filled(t)
	first := history.Open(store)
	want, err := first.Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, first.Save(&b))
	second, before := history.Open(store), store.gets.Load()
	require.NoError(t, second.Load(bytes.NewReader(b.Bytes())))
	got, err := second.Runs(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Equal(t, want.Runs, got.Runs)
	require.Equal(t, before, store.gets.Load())
	require.Error(t, second.Load(bytes.NewReader([]byte("no cache"))))
}
