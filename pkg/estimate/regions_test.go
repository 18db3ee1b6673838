package estimate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/report"
)

// marked is the largest published case as a restore with marks would do it: of so many of its regions.
func marked(share float64) estimate.Input {
	in := largest(false, cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400})
	in.MarkedShare = share
	return in
}

// dataPhase is the estimated data phase.
func dataPhase(t *testing.T, in estimate.Input, fit *estimate.Fit) estimate.Phase {
	t.Helper()
	e, err := estimate.Of(in, fit, nil)
	require.NoError(t, err)
	for _, p := range e.Phases {
		if p.Name == report.ResolveData {
			return p
		}
	}
	require.Fail(t, "no data phase")
	return estimate.Phase{}
}

// restores are past ones with these shares of regions that were not flashed back; each took the time in took.
func restores(took func(unchanged float64) float64, shares ...float64) *estimate.Fit {
	var samples []estimate.Sample
	for _, u := range shares {
		samples = append(samples, estimate.Sample{
			Input: marked(1), UnchangedShare: u,
			Phases: map[string]float64{report.StartTiKV: 190, report.ResolveData: took(u)},
		})
	}
	return estimate.NewFit(samples)
}

// byPart is the documented model of a data phase of which the rest is left when no region is flashed back.
func byPart(unchanged float64) float64 { return 786 * (1 - 0.96*unchanged) }

// The figures of make bench SUITE=restore, in docs/measurements.md, are the only ones of a data phase with marks.
func TestMeasured_DataPhase_ByWhatIsFlashedBack(t *testing.T) {
	t.Parallel()
	for flashed, measured := range map[float64]float64{0.01: 37, 0.10: 102, 1: 798} {
		t.Run(fmt.Sprint(flashed), func(t *testing.T) {
			t.Parallel()
			all := []float64{1 - flashed, 1 - flashed, 1 - flashed, 1 - flashed, 1 - flashed}
			near(t, measured, dataPhase(t, marked(1), restores(byPart, all...)).Seconds, false)
		})
	}
}

func TestOf_Marks_WithoutPastRestores_RangeIsFromAllSavedToNothing(t *testing.T) {
	t.Parallel()
	p := dataPhase(t, marked(0.98), nil)
	require.InDelta(t, 786, p.Seconds, 0.01, "the number of regions written to is unknown: the time is that of all")
	require.InDelta(t, 0.7*byPart(0.98), p.Low, 0.01)
	require.InDelta(t, 1.4*786, p.High, 0.01)
	require.Equal(t, "98% of the regions have marks: resolve data takes 47s if nothing was written to these since, 13m06s if all regions are flashed back, "+
		"which the time assumes", p.Note)
	fewer := dataPhase(t, marked(0.5), nil)
	require.Greater(t, fewer.Low, p.Low)

	none := dataPhase(t, marked(0), nil)
	require.InDelta(t, 0.7*786, none.Low, 0.01)
	require.Empty(t, none.Note)
	backup := marked(1)
	backup.Operation = report.Backup
	e, err := estimate.Of(backup, nil, nil)
	require.NoError(t, err)
	for _, ph := range e.Phases {
		require.Empty(t, ph.Note)
		require.InDelta(t, 0.7*ph.Seconds, ph.Low, 0.01)
	}
}

func TestFit_Marks_ShareOfThePastRestoresDecides(t *testing.T) {
	t.Parallel()
	twice := func(unchanged float64) float64 { return 2 * byPart(unchanged) }
	fit := restores(twice, 0.80, 0.90, 0.95, 0.97, 0.99)
	p := dataPhase(t, marked(1), fit)
	require.InDelta(t, 2*byPart(0.95), p.Seconds, 0.01)
	require.InDelta(t, 2*byPart(0.982), p.Low, 0.01, "the 90th percentile")
	require.InDelta(t, 2*byPart(0.84), p.High, 0.01, "the 10th")
	require.Contains(t, p.Note, "resolve data takes 1m03s if nothing was written to these since, 26m12s if all regions are flashed back")
	require.Contains(t, p.Note, "; the median restore of this storage flashed back 5%")

	require.InDelta(t, 2*byPart(0.6), dataPhase(t, marked(0.6), fit).Seconds, 0.01, "a region without a mark is flashed back")
	require.InDelta(t, 2*786, dataPhase(t, marked(0), fit).Seconds, 0.01, "--flashback=all")
	few := restores(twice, 0.9, 0.9, 0.9, 0.9)
	require.InDelta(t, 786, dataPhase(t, marked(1), few).Seconds, 0.01, "four are too few")
}

// On a small cluster the data phase takes as long whatever is flashed back: what was measured is then what is expected.
func TestFit_Marks_PhaseThatDoesNotDependOnThem_IsExpectedAsMeasured(t *testing.T) {
	t.Parallel()
	p := dataPhase(t, marked(1), restores(func(float64) float64 { return 30 }, 0, 0.3, 0.6, 0.8, 0.95))
	require.InDelta(t, 30, p.Seconds, 0.01)
	require.LessOrEqual(t, p.Low, 30.0)
	require.GreaterOrEqual(t, p.High, 30.0)
}
