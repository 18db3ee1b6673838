package retention

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func at(text string, tags ...string) Backup {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return Backup{ID: cluster.BackupID(text), Created: t, Tags: tags}
}

// kept maps the kept backups to why.
func kept(p Policy, backups ...Backup) map[string]string {
	out := map[string]string{}
	for _, d := range p.Apply(backups) {
		if len(d.Reasons) > 0 {
			out[string(d.ID)] = strings.Join(d.Reasons, ", ")
		}
	}
	return out
}

func TestApply_EachRule(t *testing.T) {
	t.Parallel()
	backups := []Backup{
		at("2026-11-22 10:00"), at("2026-11-22 09:30"), at("2026-11-22 09:00"), at("2026-11-21 23:00"),
		at("2026-11-15 12:00"), at("2026-11-16 00:30"), at("2026-10-01 00:00", "release"), at("2025-12-31 23:59"), at("2024-06-01 01:00"),
	}
	for name, row := range map[string]struct {
		policy Policy
		want   map[string]string
	}{
		"last": {Policy{Last: 2}, map[string]string{"2026-11-22 10:00": "last", "2026-11-22 09:30": "last"}},
		"hourly": {Policy{Hourly: 3}, map[string]string{
			"2026-11-22 10:00": "hourly", "2026-11-22 09:30": "hourly", "2026-11-21 23:00": "hourly",
		}},
		"daily":                 {Policy{Daily: 2}, map[string]string{"2026-11-22 10:00": "daily", "2026-11-21 23:00": "daily"}},
		"weeks begin on Monday": {Policy{Weekly: 2}, map[string]string{"2026-11-22 10:00": "weekly", "2026-11-15 12:00": "weekly"}},
		"monthly":               {Policy{Monthly: 2}, map[string]string{"2026-11-22 10:00": "monthly", "2026-10-01 00:00": "monthly"}},
		"the oldest fills up what is left": {Policy{Yearly: 9}, map[string]string{
			"2026-11-22 10:00": "yearly", "2025-12-31 23:59": "yearly", "2024-06-01 01:00": "yearly",
		}},
		"within, from the newest": {Policy{Within: Span{Hours: 1}}, map[string]string{
			"2026-11-22 10:00": "within 1h", "2026-11-22 09:30": "within 1h",
		}},
		"a tag": {Policy{Tags: []string{"release"}}, map[string]string{
			"2026-10-01 00:00": "tag release", "2026-11-22 10:00": "the last good backup",
		}},
		"two rules": {Policy{Last: 1, Monthly: 1}, map[string]string{"2026-11-22 10:00": "last, monthly"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, kept(row.policy, backups...))
		})
	}
}

// The oldest backup of a day stays while the policy has days left: as restic, so that a history grows to its length.
func TestApply_TooFewPeriods_KeepsTheOldest(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{"2026-11-22 10:00": "daily", "2026-11-22 08:00": "oldest daily"},
		kept(Policy{Daily: 7}, at("2026-11-22 10:00"), at("2026-11-22 09:00"), at("2026-11-22 08:00")))
}

func TestApply_NoBackups_DecidesNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Policy{Last: 1}).Apply(nil))
}

// Whatever the policy and the order: the newest stays, a number of periods is not exceeded by more than the oldest, and
// pruning what is left again removes nothing.
func TestApply_AnyPolicy_IsStable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		policy := Policy{Last: rng.IntN(4), Hourly: rng.IntN(4), Daily: rng.IntN(4), Weekly: rng.IntN(4), Monthly: rng.IntN(3), Yearly: rng.IntN(3)}
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var backups []Backup
		for i := range 1 + rng.IntN(60) {
			backups = append(backups, Backup{ID: cluster.BackupID(fmt.Sprint(i)), Created: start.Add(time.Duration(rng.IntN(20000)) * time.Hour)})
		}
		first := kept(policy, backups...)
		newest := slices.MaxFunc(backups, func(a, b Backup) int { return a.Created.Compare(b.Created) })
		require.True(t, slices.ContainsFunc(backups, func(b Backup) bool {
			return b.Created.Equal(newest.Created) && first[string(b.ID)] != ""
		}), "seed %d", seed)
		limit := policy.Last + policy.Hourly + policy.Daily + policy.Weekly + policy.Monthly + policy.Yearly
		require.LessOrEqual(t, len(first), max(1, limit), "seed %d", seed)
		again := slices.DeleteFunc(slices.Clone(backups), func(b Backup) bool { return first[string(b.ID)] == "" })
		rng.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		require.Len(t, kept(policy, again...), len(first), "seed %d: what was kept is not kept again", seed)
	}
}

func TestValidate_WhatWouldKeepNothing_IsRefused(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Policy{
		"no rule": {}, "below all": {Last: -2}, "empty tag": {Tags: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, p.Validate())
		})
	}
	for name, p := range map[string]Policy{
		"all": {Daily: All}, "within": {Within: Span{Days: 1}}, "tag": {Tags: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, p.Validate())
		})
	}
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Span{
		"14d": {Days: 14}, "1y6m": {Years: 1, Months: 6}, "2w": {Weeks: 2}, "2d12h": {Days: 2, Hours: 12}, "1y2m3w4d5h": {1, 2, 3, 4, 5},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := ParseSpan(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, text, got.String())
		})
	}
	for _, text := range []string{"", "7", "d", "0d", "-1d", "3d1y", "1.5d", "1d 2h", "30s"} {
		t.Run("not "+text, func(t *testing.T) {
			t.Parallel()
			_, err := ParseSpan(text)
			require.Error(t, err)
		})
	}
}

// A month back from the end of March is not a month of 30 days.
func TestSpan_Before_CountsByTheCalendar(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	require.Equal(t, time.Date(2026, 2, 15, 0, 0, 0, 0, time.UTC), Span{Months: 1}.Before(end))
	require.Equal(t, time.Date(2024, 3, 15, 0, 0, 0, 0, time.UTC), Span{Years: 2}.Before(end))
}
