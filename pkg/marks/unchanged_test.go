package marks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Each condition refuses alone: all others hold in each case, whose rows differ from those at the mark as its name describes.
func TestUnchanged_EachConditionAlone_Refuses(t *testing.T) {
	t.Parallel()
	mark := marks.Mark{Region: 7, Version: 3, Term: 9, Index: 40}
	same := marks.Log{Region: 7, Version: 3, Even: true, Term: 9, Longest: 40, Index: 40}
	require.True(t, mark.Unchanged(same))
	older := same
	older.Term = 8
	require.True(t, mark.Unchanged(older), "a store that reports the term of the log, or one that has not voted since")
	for name, change := range map[string]func(*marks.Log){
		"another region": func(l *marks.Log) { l.Region = 8 },
		"a neighbour was merged in, with what it had":                                            func(l *marks.Log) { l.Version = 4 },
		"the region of an older backup":                                                          func(l *marks.Log) { l.Version = 2 },
		"one peer has applied a split and another has not":                                       func(l *marks.Log) { l.Even = false },
		"a follower has an entry that the leader lacks":                                          func(l *marks.Log) { l.Longest = 41 },
		"forced to lead without its majority, it has written other entries up to the same index": func(l *marks.Log) { l.Term = 10 },
		"the peers with the last entries are lost, and it was led and written by one that lacks them": func(l *marks.Log) {
			l.Index, l.Longest = 39, 39
		},
		"all have more": func(l *marks.Log) { l.Index, l.Longest = 41, 41 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := same
			change(&l)
			require.False(t, mark.Unchanged(l))
		})
	}
}

// A follower's log may end with uncommitted entries: those that are committed in their places may be written
// after the backup, and end at the same index.
func TestOf_WhatIsNotSettled_HasNoMark(t *testing.T) {
	t.Parallel()
	region := &cluster.Region{ID: 7, Version: 3, Leader: cluster.Peer{ID: 8, Store: 1}}
	good := tikv.RaftState{Term: 9, Last: 40, Commit: 40, Version: 3, Settled: true}
	got, ok := marks.Of(region, good)
	require.True(t, ok)
	require.Equal(t, marks.Mark{Region: 7, Version: 3, Term: 9, Index: 40}, got)
	for name, change := range map[string]func(*tikv.RaftState){
		"the last entry is not committed":        func(s *tikv.RaftState) { s.Commit = 39 },
		"a merge or change of members is on":     func(s *tikv.RaftState) { s.Settled = false },
		"PD knows an older version of the range": func(s *tikv.RaftState) { s.Version = 4 },
		"the store has not applied a split":      func(s *tikv.RaftState) { s.Version = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good
			change(&s)
			_, ok := marks.Of(region, s)
			require.False(t, ok)
		})
	}
	for name, change := range map[string]func(*cluster.Region){
		"PD knows no leader": func(r *cluster.Region) { r.Leader = cluster.Peer{} },
		"PD has it in a joint state, and the store has not applied that, or has left it": func(r *cluster.Region) { r.Joint = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := *region
			change(&r)
			_, ok := marks.Of(&r, good)
			require.False(t, ok)
		})
	}
}

func TestAfter_IsOneSecondLater(t *testing.T) {
	t.Parallel()
	ts := cluster.MakeTS(time.Unix(1700000000, 0), 77)
	require.Equal(t, cluster.MakeTS(time.Unix(1700000001, 0), 77), marks.After(ts))
}

func TestSupported_KnownReleasesOnly(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"8.5.0": true, "v8.5.8": true, "7.5.1": true, "6.5.8": true, "8.1.0": true,
		"7.5.0": false, "6.5.7": false, "7.1.6": false, "9.0.0": false, "8.5.0-alpha": false, "": false, "8.5": false,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, marks.Supported(version))
		})
	}
}

func TestNewSet_MarksThatContradictEachOther_AreNotKept(t *testing.T) {
	t.Parallel()
	set := marks.NewSet([]marks.Mark{{Region: 3, Index: 1}, {Region: 2, Index: 5}, {Region: 3, Index: 2}, {Region: 1}})
	require.Equal(t, 2, set.Len())
	_, ok := set.Find(3)
	require.False(t, ok)
	got, ok := set.Find(2)
	require.True(t, ok)
	require.EqualValues(t, 5, got.Index)
	var none *marks.Set
	require.Zero(t, none.Len())
	_, ok = none.Find(2)
	require.False(t, ok)
}

func TestSame_CountsRegionsWhoseLogEndsWhereItDid(t *testing.T) {
	t.Parallel()
	before := marks.NewSet([]marks.Mark{{1, 1, 5, 10}, {2, 1, 5, 10}, {3, 1, 5, 10}, {5, 1, 5, 10}, {6, 1, 5, 10}})
	now := marks.NewSet([]marks.Mark{
		{1, 1, 5, 10}, // the same
		{2, 1, 5, 11}, // written to
		{3, 2, 5, 10}, // split
		{4, 1, 5, 10}, // new
		{6, 1, 7, 10}, // someone was elected, and has written nothing yet
	})
	require.Equal(t, 2, now.Same(before))
	require.Equal(t, 2, before.Same(now))
	require.Equal(t, 5, now.Same(now))
	require.Zero(t, now.Same(nil))
	require.Zero(t, (*marks.Set)(nil).Same(now))
}
