package resolve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// saved is the progress of an earlier run.
type saved struct {
	resolve.NoProgress
	p   resolve.Progress
	err error
}

func (s saved) Load(context.Context) (resolve.Progress, bool, error) { return s.p, true, s.err }

// states answers for the stores that are named, and for the others that their data end where their logs do.
func states(of map[string]tikv.RaftState) func(string, int) (tikv.RaftState, error) {
	return func(address string, _ int) (tikv.RaftState, error) {
		if s, ok := of[address]; ok {
			return s, nil
		}
		return tikv.RaftState{Last: 10, Applied: 10}, nil
	}
}

// Catalogue: G16.
func TestReplicaAheadOfTheLog_IsRefusedByName(t *testing.T) {
	t.Parallel()
	ahead := map[string]tikv.RaftState{"store-2": {Last: 10, Applied: 12}}
	before := resolve.Progress{ClusterID: 7, BackupTS: 1}
	was := before
	was.EarlyApply = &resolve.EarlyApply{Affected: []plan.Ahead{{Region: 1, Store: 3, Applied: 9}}}
	none := before
	none.EarlyApply = &resolve.EarlyApply{}
	other := before
	other.ClusterID = 8
	for name, row := range map[string]struct {
		states map[string]tikv.RaftState
		change func(*resolve.Config)
		want   string // of the error; "" is none
		limits map[string]string
	}{
		"no replica is ahead":                                      {nil, func(*resolve.Config) {}, "", lowered()},
		"one applied what no log has":                              {ahead, func(*resolve.Config) {}, "region 1 on store 2, applied up to index 12", lowered()},
		"ahead of its own log alone":                               {map[string]tikv.RaftState{"store-2": {Last: 8, Applied: 10}}, func(*resolve.Config) {}, "", lowered()},
		"the backup has ruled it out":                              {ahead, func(c *resolve.Config) { c.NoneAhead = true }, "", lowered()},
		"a run before has found it":                                {nil, func(c *resolve.Config) { c.Progress = saved{p: was} }, "region 1 on store 3", lowered()},
		"a run before has found it, and PD was let schedule since": {nil, func(c *resolve.Config) { c.Progress = saved{p: was} }, "PD may have copied them", nil},
		"a run before has found none":                              {ahead, func(c *resolve.Config) { c.Progress = saved{p: none} }, "", lowered()},
		"a run before has not looked":                              {nil, func(c *resolve.Config) { c.Progress = saved{p: before} }, "can no longer be seen", lowered()},
		"that run's was another cluster":                           {nil, func(c *resolve.Config) { c.Progress = saved{p: other} }, "", lowered()},
		"what a run before wrote is unreadable":                    {nil, func(c *resolve.Config) { c.Progress = saved{err: failure.New(failure.Corrupt, "decode", "", "x")} }, "can no longer be seen", lowered()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newRack()
			k.states, k.limits = states(row.states), row.limits
			_, err := k.plan(t, row.change)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			require.ErrorContains(t, err, row.want)
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}

func TestFindAhead_StoreThatDoesNotAnswer_IsAskedAgain(t *testing.T) {
	t.Parallel()
	away := failure.New(failure.Limited, "read raft state", "", "the connection was refused")
	synctest.Test(t, func(t *testing.T) {
		k := newRack()
		k.states = func(address string, call int) (tikv.RaftState, error) {
			if address == "store-2" && call < 3 {
				return tikv.RaftState{}, away
			}
			return tikv.RaftState{Last: 10, Applied: 10}, nil
		}
		_, err := k.plan(t)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"store-1": 1, "store-2": 3, "store-3": 1}, k.asked)
	})
}

// A store that cannot be asked is no store without such replicas.
// Catalogue: G16.
func TestStoreCannotBeAsked_EndsTheRun(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]failure.Kind{
		"it has no such service": failure.Unready, "it does not know its own peer": failure.NotFound, "it never answers": failure.Limited,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				k.report = func(_ string, _ int, each func(tikv.RegionMeta) error) error {
					return errors.Join(each(peer(1, "", "b")), each(peer(2, "b", "c")), each(peer(3, "c", "")))
				}
				k.states = func(address string, _ int) (tikv.RaftState, error) {
					if address == "store-2" {
						return tikv.RaftState{}, failure.New(kind, "read raft state", "", "no")
					}
					return tikv.RaftState{Last: 10, Applied: 10}, nil
				}
				_, err := k.plan(t)
				require.Equal(t, kind, failure.KindOf(err))
				require.ErrorContains(t, err, "store 2 (store-2)")
				require.Equal(t, 1, strings.Count(err.Error(), "read raft state of region"), "of thousands of regions one is enough: %v", err)
			})
		})
	}
}

// It is written down with the timestamps, before the first region gets a leader.
func TestFindAhead_WhatWasFound_IsWrittenDown(t *testing.T) {
	t.Parallel()
	o := makeOriginal(t)
	l := restoreLab(t, o, 1)
	kept := &memoryProgress{}
	cfg := l.config(o, "run")
	cfg.Progress = kept
	_, err := l.run(t, cfg, map[string]func(){"recover": func() {
		p, found, err := kept.Load(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		require.NotNil(t, p.EarlyApply, "a run that resumes could not find it any more")
		require.Empty(t, p.EarlyApply.Affected)
	}})
	require.NoError(t, err)
	l.verify(t, o)
}

// Its log alone has what may be committed, so that no other replica can be elected: it leads first.
// Catalogue: G16.
func TestReplicaAheadHasTheBestLog_LeadsFirst(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		last  uint64
		leads bool
	}{
		"its log is the best":  {12, true},
		"another's is as good": {10, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newRack()
			k.report = bestOnStore2(row.last)
			k.states = states(map[string]tikv.RaftState{"store-2": {Last: row.last, Applied: 14}})
			made, err := k.plan(t, func(c *resolve.Config) { c.Rebuilds = true })
			require.NoError(t, err)
			require.Equal(t, []plan.Ahead{{Region: 1, Store: 2, Applied: 14}}, made.Affected)
			require.Equal(t, row.leads, len(made.AffectedLeaders()) == 1)
		})
	}
}

func bestOnStore2(last uint64) func(string, int, func(tikv.RegionMeta) error) error {
	return func(address string, _ int, each func(tikv.RegionMeta) error) error {
		m := peer(1, "", "")
		if address == "store-2" {
			m.LastIndex = last
		}
		return each(m)
	}
}
