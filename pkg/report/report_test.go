package report_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func timing(name string, s float64, steps ...phase.StepTiming) phase.Timing {
	return phase.Timing{Phase: name, Start: start, Seconds: s, Outcome: phase.Done, Steps: steps}
}

func step(name string, s float64, parts ...phase.Part) phase.StepTiming {
	return phase.StepTiming{Name: name, Start: start, Seconds: s, Outcome: phase.Done, Parts: parts}
}

func backupRun() (report.Header, phase.Timings) {
	timings := phase.Timings{
		timing("preflight", 2.31, step("check stores", 1.9), step("check quotas", 0.41)),
		timing(report.CreateTask, 0.85, step("lock", 0.35), step("open leases", 0.5)),
		timing(report.PauseScheduling, 0.25),
		timing(report.PauseGC, 0.0062),
		timing(report.GetBackupTS, 0.0003),
		timing(report.VolumeSnapshots, 856.4, step("cut", 2.04, phase.Part{Name: "store 4", Seconds: 1.98}),
			step("wait for snapshots", 854.2)),
		timing("seal", 0.42),
	}
	return report.Header{
		Operation: report.Backup, Run: "b-20260822T100000Z-7f3a", Backup: "2026-08-22-1000",
		Cluster: cluster.Name{Namespace: "prod", Name: "orders"}, Outcome: phase.Done,
		Started: start, Finished: start.Add(seconds(timings.Total())), TiKVs: 30, Volumes: 30,
		DataBytes: 90e12, DataPerVolumeBytes: 3e12,
		Hold: &report.Hold{
			Start: start.Add(3 * time.Second), Seconds: 5.31, CutStart: start.Add(5 * time.Second), CutSeconds: 2.04,
			SkewSeconds: 0.9, Attempts: 1, Parts: []phase.Part{{Name: "connect", Seconds: 0.21}, {Name: "wait admin", Seconds: 1.2}},
		},
		Checks: []string{"30 of 30 snapshots completed", "all leases were valid over the whole cut"},
	}, timings
}

func failedBackup() (report.Header, phase.Timings) {
	h, timings := backupRun()
	timings = timings[:4]
	timings[3].Outcome, timings[3].Seconds = phase.Failed, 30
	timings[0].Outcome = phase.Done
	h.Outcome, h.Hold, h.Checks = phase.Failed, nil, nil
	h.Error = "pause gc: not done within 30s: pd http://pd-0:2379: connection refused"
	h.Finished = start.Add(40 * time.Second)
	return h, timings
}

func restoreRun() (report.Header, phase.Timings) {
	timings := phase.Timings{
		timing("load", 0.3), timing("preflight", 1.25),
		timing(report.CreateCluster, 52.1),
		timing(report.RestoreVolumes, 6.4, step("create volumes", 5.2), step("bind volumes", 1.2)),
		timing(report.StartTiKV, 175.2),
		timing(report.ResolveData, 512.9, step("read metas", 20.1), step("recover", 61.5), step("flashback", 431.3)),
		timing(report.StartTiDB, 58),
	}
	return report.Header{
		Operation: report.Restore, Run: "r-20260822T110000Z-01bc", Backup: "2026-08-22-1000",
		Cluster: cluster.Name{Namespace: "dr", Name: "orders"}, Outcome: phase.Done,
		Started: start, Finished: start.Add(seconds(timings.Total())), TiKVs: 20, Volumes: 20,
		DataBytes: 21e12, DataPerVolumeBytes: 1.05e12,
		VolumeSettings: &report.VolumeSettings{Type: "gp3", IOPS: 7000, ThroughputMiB: 400},
		Regions:        &report.Regions{Total: 50_000, Unchanged: 45_000, Flashed: 5_000, Checked: 16, SavedSeconds: 3881.7},
		Checks:         []string{"all keys are at 449512345600000001"},
	}, timings
}

func failedRestore() (report.Header, phase.Timings) {
	h, timings := restoreRun()
	timings = timings[:5]
	timings[4].Outcome = phase.Failed
	h.Outcome, h.Checks, h.DataBytes, h.DataPerVolumeBytes, h.Regions = phase.Failed, nil, 0, 0, nil
	h.Finished, h.Error = start.Add(400*time.Second), "start tikv of store 7: not ready within 30m0s"
	return h, timings
}

func TestReport_Rendered_MatchesGolden(t *testing.T) {
	t.Parallel()
	runs := map[string]func() (report.Header, phase.Timings){
		"backup": backupRun, "backup-failed": failedBackup, "restore": restoreRun, "restore-failed": failedRestore,
	}
	full := report.TableOptions{Compare: true, Details: true}
	for name, run := range runs {
		r := report.New(run())
		cases := map[string]func(*bytes.Buffer) error{
			".txt":      func(b *bytes.Buffer) error { return r.Table(b, report.TableOptions{}) },
			"-full.txt": func(b *bytes.Buffer) error { return r.Table(b, full) },
			".md":       func(b *bytes.Buffer) error { return r.Markdown(b, full) },
			".json":     func(b *bytes.Buffer) error { return r.JSON(b) },
		}
		for suffix, render := range cases {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				var b bytes.Buffer
				require.NoError(t, render(&b))
				golden(t, name+suffix, b.String())
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update")
	assert.Equal(t, string(want), got)
}

func TestReport_Table_StaysNarrow(t *testing.T) {
	t.Parallel()
	h, timings := restoreRun()
	for i := range timings {
		timings[i].Seconds = 35999.9
	}
	h.DataBytes, h.DataPerVolumeBytes, h.TiKVs = 99e15, 64e12, 1000
	timings[4].Outcome = phase.Failed
	h.Finished = start.Add(99 * time.Hour)
	var b bytes.Buffer
	require.NoError(t, report.New(h, timings).Table(&b, report.TableOptions{Compare: true, Details: true}))
	for _, line := range strings.Split(b.String(), "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 101, line)
		assert.Equal(t, strings.TrimRight(line, " "), line)
	}
}

func TestReport_Table_HasNoColorUnlessAsked(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, report.New(failedRestore()).Table(&b, report.TableOptions{Details: true}))
	assert.NotContains(t, b.String(), "\x1b")
}

func TestNew_TotalAndShares(t *testing.T) {
	t.Parallel()
	h, timings := restoreRun()
	r := report.New(h, timings)
	assert.InDelta(t, timings.Total(), r.TotalSeconds, 1e-6)
	var shares float64
	for _, p := range r.Phases {
		shares += p.Share
	}
	assert.InDelta(t, 1, shares, 1e-6)

	h.Finished = start.Add(time.Hour)
	assert.InDelta(t, 3600, report.New(h, timings).TotalSeconds, 1e-6, "time between the phases counts")
	h.Finished = start.Add(time.Second)
	assert.InDelta(t, timings.Total(), report.New(h, timings).TotalSeconds, 1e-6, "a clock that was set back does not")
	h.Finished = time.Time{}
	assert.InDelta(t, timings.Total(), report.New(h, timings).TotalSeconds, 1e-6)

	empty := report.New(report.Header{Operation: report.Backup}, nil)
	assert.Zero(t, empty.TotalSeconds)
	var b bytes.Buffer
	require.NoError(t, empty.Table(&b, report.TableOptions{Compare: true, Details: true}))
	_, ran := empty.Seconds(report.CreateTask)
	assert.False(t, ran)
}

func TestDuration(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for want, s := range map[string]float64{
		"0s": 0, "<1ms": 0.0001, "1ms": 0.0006, "850ms": 0.85, "999ms": 0.9991, "1s": 0.9996, "12.3s": 12.34, "6s": 6, "59.9s": 59.94,
		"1m00s": 59.96, "1m02.4s": 62.4, "18m16s": 1096, "59m59.9s": 3599.9, "1h00m00s": 3599.96, "1h02m03s": 3723.2,
		"27h00m01s": 97201, "-": -1,
	} {
		t.Run(want, func(t *testing.T) {
			assert.Equal(t, want, report.Duration(s), "%v", s)
		})
	}
}

type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestReport_WriterFails_ErrorIsReturned(t *testing.T) {
	t.Parallel()
	r := report.New(backupRun())
	require.ErrorIs(t, r.Table(broken{}, report.TableOptions{}), errBroken)
	require.ErrorIs(t, r.Markdown(broken{}, report.TableOptions{}), errBroken)
	require.ErrorIs(t, r.JSON(broken{}), errBroken)
}

func TestReport_Warnings_AreShownAndKept(t *testing.T) {
	t.Parallel()
	h, timings := backupRun()
	h.Warnings = []string{"2 regions disagreed"}
	r := report.New(h, timings)
	var table, document bytes.Buffer
	require.NoError(t, r.Table(&table, report.TableOptions{}))
	require.Contains(t, table.String(), "\nwarning: 2 regions disagreed\n")
	require.NoError(t, r.JSON(&document))
	got, err := report.Decode(&document)
	require.NoError(t, err)
	require.Equal(t, h.Warnings, got.Warnings)
}

func TestDecode_WhatJSONWrote_IsEqual(t *testing.T) {
	t.Parallel()
	want := report.New(backupRun())
	var b bytes.Buffer
	require.NoError(t, want.JSON(&b))
	got, err := report.Decode(&b)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestDecode_NotAReport_IsCorrupt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", "{}", `{"apiVersion":"tisnap.io/v2","kind":"Report"}`, `{"apiVersion":"tisnap.io/v1","kind":"List"}`} {
		_, err := report.Decode(strings.NewReader(text))
		assert.True(t, failure.Is(err, failure.Corrupt), "%q: %v", text, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"apiVersion":"tisnap.io/v1","kind":"Report","phases":[{"name":"seal","seconds":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := report.Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		require.NoError(t, r.Table(&bytes.Buffer{}, report.TableOptions{Compare: true, Details: true}))
		require.NoError(t, r.JSON(&bytes.Buffer{}))
	})
}
