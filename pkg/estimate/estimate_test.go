package estimate_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func of(t *testing.T, in estimate.Input) *estimate.Estimate {
	t.Helper()
	prices, err := estimate.DefaultPrices()
	require.NoError(t, err)
	e, err := estimate.Of(in, nil, prices)
	require.NoError(t, err)
	return e
}

func seconds(t *testing.T, e *estimate.Estimate, phase string) float64 {
	t.Helper()
	for _, p := range e.Phases {
		if p.Name == phase {
			return p.Seconds
		}
	}
	require.Failf(t, "no such phase", "%s", phase)
	return 0
}

// near checks a published figure: within 10 % unless it is named as one that fits none of its neighbours.
func near(t *testing.T, want, got float64, inconsistent bool) {
	t.Helper()
	off := math.Abs(got/want - 1)
	if inconsistent {
		assert.Greater(t, off, 0.10, "this row is named as inconsistent, and is not: %v s against %v s", got, want)
		return
	}
	assert.LessOrEqual(t, off, 0.10, "%v s, published are %v s", got, want)
}

func TestPublished_BackupByVolume(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		gb, size     int64
		iops         int64
		minutes      float64
		inconsistent bool // 42 MB/s, while the same volume with 100 or 200 GB has 33 MB/s
	}{
		{50, 500, 3000, 20, true}, {100, 500, 3000, 50, false}, {200, 500, 3000, 100, false},
		{500, 1024, 3000, 150, false}, {1024, 3500, 7000, 350, false},
	} {
		t.Run(fmt.Sprint(row.gb, "GB"), func(t *testing.T) {
			t.Parallel()
			e := of(t, estimate.Input{
				Operation: report.Backup, Stores: 3, DataBytes: 3 * row.gb * estimate.GB,
				Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: row.size, IOPS: row.iops, ThroughputMiB: 125},
			})
			near(t, row.minutes*60, e.Total.Seconds, row.inconsistent)
		})
	}
}

func TestPublished_RestoreByVolume(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		gb, size int64
		minutes  float64
	}{{50, 500, 16}, {100, 500, 18}, {200, 500, 21}, {500, 1024, 25}, {1024, 3500, 34}} {
		t.Run(fmt.Sprint(row.gb, "GB"), func(t *testing.T) {
			t.Parallel()
			e := of(t, estimate.Input{
				Operation: report.Restore, Stores: 3, DataBytes: 3 * row.gb * estimate.GB, Writes: true,
				Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: row.size, IOPS: 7000, ThroughputMiB: 400},
			})
			near(t, row.minutes*60, e.Total.Seconds, false)
		})
	}
}

// largest is the published case that explores the limit.
func largest(writes bool, spec cluster.VolumeSpec) estimate.Input {
	spec.SizeGiB = 3200
	return estimate.Input{Operation: report.Restore, Stores: 20, DataBytes: 21_000 * estimate.GB, Writes: writes, Spec: spec}
}

func TestPublished_LargestCase(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	e := of(t, largest(false, cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}))
	for phase, want := range map[string]float64{
		report.CreateCluster: 60, report.RestoreVolumes: 6, report.StartTiKV: 190, report.ResolveData: 786, report.StartTiDB: 60,
	} {
		t.Run(phase, func(t *testing.T) { near(t, want, seconds(t, e, phase), false) })
	}
	near(t, 18*60+16, e.Total.Seconds, false) // the parts add up to 18m22s
	under := of(t, largest(true, cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}))
	near(t, 15*60, under.Total.Seconds-e.Total.Seconds, false) // "about 15 min more"
}

func TestPublished_PhasesOfARestore(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	slow := of(t, largest(true, cluster.VolumeSpec{Type: "gp3", IOPS: 3000, ThroughputMiB: 125}))
	idle := of(t, largest(false, cluster.VolumeSpec{Type: "gp3", IOPS: 3000, ThroughputMiB: 125}))
	for name, row := range map[string]struct {
		want, got    float64
		inconsistent bool // with the case above, by the same authors
	}{
		"create cluster, 30 s":                 {30, seconds(t, slow, report.CreateCluster), true},
		"restore volumes, 20 s":                {20, seconds(t, slow, report.RestoreVolumes), true},
		"start TiKV without writes, 3 min":     {180, seconds(t, idle, report.StartTiKV), false},
		"start TiKV after writes, 30 min":      {1800, seconds(t, slow, report.StartTiKV), false},
		"resolve data of the largest, 20 min":  {1200, seconds(t, slow, report.ResolveData), false},
		"start TiDB, 1 min":                    {60, seconds(t, slow, report.StartTiDB), false},
		"start TiKV's share of the total, 58%": {58, 100 * seconds(t, slow, report.StartTiKV) / slow.Total.Seconds, false},
		"resolve data's share, 38%":            {38, 100 * seconds(t, slow, report.ResolveData) / slow.Total.Seconds, false},
		"start TiDB's share, 2%":               {2, 100 * seconds(t, slow, report.StartTiDB) / slow.Total.Seconds, false},
		"create cluster's share, 1%":           {1, 100 * seconds(t, slow, report.CreateCluster) / slow.Total.Seconds, true},
		"restore volumes' share, 1%":           {1, 100 * seconds(t, slow, report.RestoreVolumes) / slow.Total.Seconds, true},
	} {
		t.Run(name, func(t *testing.T) { near(t, row.want, row.got, row.inconsistent) })
	}
	fast := of(t, largest(true, cluster.VolumeSpec{Type: "io2", IOPS: 16000}))
	require.Less(t, seconds(t, fast, report.StartTiKV), 300.0, "on io2 under 5 min")
}

func TestOf_MoreOfAnything_NeverTakesLess(t *testing.T) {
	t.Parallel()
	for _, op := range []report.Operation{report.Backup, report.Restore} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			before := 0.0
			for _, stores := range []int{1, 3, 20, 150, 1000} {
				e := of(t, estimate.Input{Operation: op, Stores: stores, DataBytes: int64(stores) * 500 * estimate.GB, InitializationMiB: 100})
				require.GreaterOrEqual(t, e.Total.Seconds, before)
				require.LessOrEqual(t, e.Total.Low, e.Total.Seconds)
				require.GreaterOrEqual(t, e.Total.High, e.Total.Seconds)
				before = e.Total.Seconds
			}
		})
	}
}

func TestOf_Cost_AddsUpByItem(t *testing.T) {
	t.Parallel()
	e := of(t, estimate.Input{
		Operation: report.Restore, Stores: 10, Volumes: 10, DataBytes: 1 << 40, OtherRegion: true, FastRestore: true,
		Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 1000, IOPS: 7000, ThroughputMiB: 400},
	})
	want := map[string]float64{
		"volumes": 10 * 1000 * 0.08, "volumes' IOPS": 10 * 4000 * 0.005, "volumes' throughput": 10 * 275 * 0.04,
		"fast snapshot restore": 10 * 0.75, "transfer to another region": 1024 * 0.02, "requests to S3": 0.08*0.005 + 0.04*0.0004,
	}
	require.Len(t, e.Cost.Items, len(want))
	var once, month float64
	for _, i := range e.Cost.Items {
		require.NotNil(t, i.USD, i.Name)
		assert.InDelta(t, want[i.Name], *i.USD, 1e-9, i.Name)
		if i.Month {
			month += *i.USD
		} else {
			once += *i.USD
		}
	}
	require.InDelta(t, once, e.Cost.OnceUSD, 1e-9)
	require.InDelta(t, month, e.Cost.MonthUSD, 1e-9)
	require.True(t, e.Cost.Known())
}

// AWS publishes no price of the initialization rate in a document that this file of prices could name: it is shown as not
// known, and counts by the GB as soon as --prices has one.
func TestOf_CostOfTheInitializationRate(t *testing.T) {
	t.Parallel()
	in := estimate.Input{Operation: report.Restore, Stores: 10, DataBytes: 1 << 40, InitializationMiB: 300}
	unknown := of(t, in).Cost
	require.False(t, unknown.Known())
	prices, err := estimate.DefaultPrices()
	require.NoError(t, err)
	price := 0.5
	prices.Initialization.GB = &price
	e, err := estimate.Of(in, nil, prices)
	require.NoError(t, err)
	require.True(t, e.Cost.Known())
	require.InDelta(t, unknown.OnceUSD+1024*0.5, e.Cost.OnceUSD, 1e-9)
}

func TestComplete_WhatNoRunCanBe_IsUsage(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]estimate.Input{
		"no stores": {DataBytes: 1}, "fewer volumes than stores": {Stores: 3, Volumes: 2, DataBytes: 1}, "no data": {Stores: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := in.Complete()
			require.Equal(t, failure.Usage, failure.KindOf(err))
		})
	}
}

func TestProfiles_FastestAndCheapestAreMarkedOnce(t *testing.T) {
	t.Parallel()
	prices, err := estimate.DefaultPrices()
	require.NoError(t, err)
	choices, err := estimate.Profiles(largest(true, cluster.VolumeSpec{Type: "gp3"}), nil, prices)
	require.NoError(t, err)
	var fastest, cheapest []string
	for _, c := range choices {
		if c.Fastest {
			fastest = append(fastest, c.Name)
		}
		if c.Cheapest {
			cheapest = append(cheapest, c.Name)
		}
	}
	require.Equal(t, []string{"io2 16000"}, fastest)
	require.Equal(t, []string{"gp3 3000/125"}, cheapest)
}

func TestReadPrices_MisspeltOrSenseless_IsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown field": "date = \"2026-01-01\"\n[gp3]\ngb_mont = 1", "no date": "[gp3]\ngb_month = 1", "below zero": "date = \"2026-01-01\"\n[gp3]\ngb_month = -1",
		"not TOML": "{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "p.toml")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := estimate.ReadPrices(path)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
		})
	}
	path := filepath.Join(t.TempDir(), "own.toml")
	require.NoError(t, os.WriteFile(path, []byte("date = \"2026-01-01\"\n[gp3]\ngb_month = 1\n"), 0o600))
	own, err := estimate.ReadPrices(path)
	require.NoError(t, err)
	e, err := estimate.Of(estimate.Input{Operation: report.Restore, Stores: 2, DataBytes: 1, Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}}, nil, own)
	require.NoError(t, err)
	require.InDelta(t, 20, e.Cost.MonthUSD, 1e-9)
	require.False(t, e.Cost.Known(), "requests have no price in it")
}

func sample(factor float64) estimate.Sample {
	return estimate.Sample{
		Input: largest(false, cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}),
		Phases: map[string]float64{
			report.CreateCluster: 60 * factor, report.RestoreVolumes: 6 * factor, report.StartTiKV: 190 * factor, report.ResolveData: 786 * factor,
		},
	}
}

func TestFit_EnoughRuns_ScaleTheModelByTheirMedian(t *testing.T) {
	t.Parallel()
	var few, enough []estimate.Sample
	for i, factor := range []float64{0.4, 0.5, 0.5, 0.6, 9} {
		enough = append(enough, sample(factor))
		if i > 0 {
			few = append(few, sample(factor))
		}
	}
	in := enough[0].Input
	left, err := estimate.Of(in, estimate.NewFit(few), nil)
	require.NoError(t, err)
	require.Equal(t, "the published tables", left.Model)
	require.InDelta(t, 1102, left.Total.Seconds, 1)
	fitted, err := estimate.Of(in, estimate.NewFit(enough), nil)
	require.NoError(t, err)
	require.Equal(t, "the last 5 restores of this storage", fitted.Model)
	require.InDelta(t, 0.5*(1102-60)+60, fitted.Total.Seconds, 1, "the one outlier does not count, and what did not run is left as published")
	half := in
	half.DataBytes /= 2
	smaller, err := estimate.Of(half, estimate.NewFit(enough), nil)
	require.NoError(t, err)
	require.InDelta(t, 786*0.5*0.5, seconds(t, smaller, report.ResolveData), 1, "data that grow or shrink still count")
}

// Runs of one size do not show what is overhead and what grows with the data: they do not predict another size.
func TestFit_RunsOfOneSize_DoNotPredictOthers(t *testing.T) {
	t.Parallel()
	var samples []estimate.Sample
	for range 6 {
		s := sample(1)
		s.Input.DataBytes = 20 * 150e6 // of the testbed: overhead alone
		s.Phases = map[string]float64{report.CreateCluster: 1, report.StartTiKV: 3, report.ResolveData: 2.5}
		samples = append(samples, s)
	}
	other := "the published tables, as the last 6 restores of this storage are of other sizes"
	for name, row := range map[string]struct {
		bytes   int64
		resolve float64
		model   string
	}{
		"the same": {20 * 150e6, 2.5, "the last 6 restores of this storage"}, "nearly twice": {20 * 290e6, 5, "the last 6 restores of this storage"},
		"more than twice": {20 * 310e6, 0.2, other}, "less than half": {20 * 70e6, 0.1, other}, "21 TB": {21_000 * estimate.GB, 786, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := samples[0].Input
			in.DataBytes = row.bytes
			e, err := estimate.Of(in, estimate.NewFit(samples), nil)
			require.NoError(t, err)
			require.Equal(t, row.model, e.Model)
			require.Equal(t, row.model != other, e.Fitted)
			require.InDelta(t, row.resolve, seconds(t, e, report.ResolveData), 0.2)
		})
	}
}

// Runs of several sizes do: two minutes, and half the published rate, are found whatever one odd run took.
func TestFit_RunsOfSeveralSizes_OverheadAndRateApart(t *testing.T) {
	t.Parallel()
	var samples []estimate.Sample
	for i, tb := range []int64{1, 2, 3, 4, 5} {
		s := sample(1)
		s.Input.DataBytes = tb * 1000 * estimate.GB
		s.Phases[report.ResolveData] = 120 + 2*786*float64(tb)/21
		if i == 2 {
			s.Phases[report.ResolveData] *= 3
		}
		samples = append(samples, s)
	}
	in := samples[0].Input
	for tb, fitted := range map[int64]bool{0: true, 1: true, 20: true, 21: false} {
		in.DataBytes = max(tb*1000*estimate.GB, 1e6)
		e, err := estimate.Of(in, estimate.NewFit(samples), nil)
		require.NoError(t, err)
		require.Equal(t, fitted, e.Fitted, tb)
		want := 786 * float64(tb) / 21
		if fitted {
			want = 120 + 2*want
		}
		require.InDelta(t, want, seconds(t, e, report.ResolveData), 1, tb)
	}
}

// A cluster that grew, or a faster version, shows in the estimate after some runs, not after as many as there were before.
func TestFit_OldRuns_CountNoMore(t *testing.T) {
	t.Parallel()
	var samples []estimate.Sample
	for i := range 40 {
		factor := 1.0
		if i >= 28 {
			factor = 2
		}
		samples = append(samples, sample(factor))
	}
	e, err := estimate.Of(samples[0].Input, estimate.NewFit(samples), nil)
	require.NoError(t, err)
	require.Equal(t, "the last 12 restores of this storage", e.Model)
	require.InDelta(t, 2*786, seconds(t, e, report.ResolveData), 1)
}

func TestExpected_IsTheEstimate(t *testing.T) {
	t.Parallel()
	e := of(t, largest(false, cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}))
	x := e.Expected()
	require.InDelta(t, e.Total.Seconds, x.Seconds, 1e-9)
	require.Len(t, x.Phases, len(e.Phases))
}
