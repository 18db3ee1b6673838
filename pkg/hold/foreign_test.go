package hold_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
)

func TestCheckForeign_WhatOthersHold_IsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		hold    func(ctx context.Context, r *rig) error
		message string // "" is no refusal
	}{
		{"nothing", func(context.Context, *rig) error { return nil }, ""},
		{"a paused scheduler", func(_ context.Context, r *rig) error {
			return r.server.PauseByOther("balance-leader-scheduler", time.Minute)
		}, "scheduler balance-leader-scheduler is paused until "},
		{"an override of what a hold overrides", func(ctx context.Context, r *rig) error {
			return r.pd.SetTTLConfig(ctx, map[string]any{"schedule.leader-schedule-limit": 0}, time.Minute)
		}, "schedule.leader-schedule-limit is overridden to 0"},
		{"any other override", func(ctx context.Context, r *rig) error {
			return r.pd.SetTTLConfig(ctx, map[string]any{"schedule.max-merge-region-size": 7}, time.Minute)
		}, "schedule.max-merge-region-size is overridden to 7"},
		{"a safe point of br", func(ctx context.Context, r *rig) error { return r.holdGC(ctx, "br-4711") }, "service br-4711 holds GC until "},
		{"one of br, while a log backup started elsewhere", func(ctx context.Context, r *rig) error {
			r.startLog(5)
			return r.holdGC(ctx, "br-4711")
		}, "service br-4711 holds GC until "},
		{"one of br's start of a log backup", func(ctx context.Context, r *rig) error {
			ts, err := r.pd.Now(ctx)
			if err != nil {
				return err
			}
			r.startLog(ts)
			_, err = r.pd.HoldGC(ctx, "br-4711", ts-1, time.Minute)
			return err
		}, ""},
		{"one of another run", func(ctx context.Context, r *rig) error { return r.holdGC(ctx, "tisnap-other") }, "holds the cluster: run other of tisnap holds GC by service tisnap-other until "},
		{"one of a Job that holds", func(ctx context.Context, r *rig) error {
			ends := time.Date(2026, 11, 25, 3, 15, 0, 0, time.UTC)
			return r.holdGC(ctx, "tisnap-"+string(hold.Holder{Host: "demo-init-x7k2p", Pod: true, Ends: ends}.Sign("other")))
		}, "run other (pod demo-init-x7k2p (Job demo-init), which ends it by 2026-11-25T03:15:00Z) of tisnap holds GC by service tisnap-other@pod.demo-init-x7k2p@20261125T031500Z until "},
		{"its own", func(ctx context.Context, r *rig) error { return r.holdGC(ctx, "tisnap-run-1") }, ""},
		{"one of TiCDC", func(ctx context.Context, r *rig) error { return r.holdGC(ctx, "ticdc-default") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ctx := within(t, 20*time.Second)
			require.NoError(t, c.hold(ctx, r))
			before := r.left(t)
			err := hold.CheckForeign(ctx, name, r.pd, hold.Own{Run: "run-1"})
			require.Equal(t, before, r.left(t), "nothing is changed")
			if c.message == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, c.message)
			require.Contains(t, failure.HintOf(err), "tisnap release tidb/prod --all")
		})
	}
}

// startLog makes a log backup as `br log start` does, except for its safe point.
func (r *rig) startLog(at cluster.TS) {
	const startTS = "\x10" // field 2 of StreamBackupTaskInfo, a varint
	r.server.SetEtcd("/tidb/br-stream/info/pitr", startTS+string(binary.AppendUvarint(nil, uint64(at))))
}

func (r *rig) holdGC(ctx context.Context, service string) error {
	ts, err := r.pd.Now(ctx)
	if err != nil {
		return err
	}
	_, err = r.pd.HoldGC(ctx, service, ts, time.Minute)
	return err
}

// behindPD is PD on a machine whose clock is eleven minutes behind this one's.
type behindPD struct{ hold.PD }

const behind = 11 * time.Minute

func (p behindPD) Now(ctx context.Context) (cluster.TS, error) {
	ts, err := p.PD.Now(ctx)
	return cluster.MakeTS(ts.Time().Add(-behind), 0), err
}

func (p behindPD) SafePoints(ctx context.Context) ([]pd.SafePoint, cluster.TS, error) {
	points, ts, err := p.PD.SafePoints(ctx)
	for i := range points {
		points[i].ExpiredAt = points[i].ExpiredAt.Add(-behind)
	}
	return points, ts, err
}

// A safe point expires by PD's clock: that this machine's is ahead ends no hold.
func TestCheckForeign_ClockIsAheadOfPDs_HoldIsSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	for _, service := range []string{"br-4711", "tisnap-other"} {
		require.NoError(t, r.holdGC(ctx, service))
		err := hold.CheckForeign(ctx, name, behindPD{r.pd}, hold.Own{Run: "run-1"})
		require.Equal(t, failure.Conflict, failure.KindOf(err))
		require.ErrorContains(t, err, service)
	}
}

// What an attempt of the same run left because an answer was late is not someone else's.
func TestCheckForeign_OfTheSameRun_IsNoReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	require.NoError(t, r.server.PauseByOther("balance-leader-scheduler", time.Minute))
	require.NoError(t, r.pd.SetTTLConfig(ctx, map[string]any{"schedule.leader-schedule-limit": 0}, time.Minute))
	own := hold.Own{Run: "run-1", Schedulers: []string{"balance-leader-scheduler"}, Limits: []string{"schedule.leader-schedule-limit"}}
	require.NoError(t, hold.CheckForeign(ctx, name, r.pd, own))
	require.NoError(t, hold.CheckForeign(ctx, name, r.pd, hold.Own{AnyPause: true}))
	require.Error(t, hold.CheckForeign(ctx, name, r.pd, hold.Own{Run: "run-1"}))
}
