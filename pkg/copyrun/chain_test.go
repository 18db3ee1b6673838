package copyrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// onward is the lab that copies what l has copied, back into its first account and region, and another storage there.
func (l *lab) onward(name string) *lab {
	s3 := &fault.Plan{}
	return &lab{topology: l.topology, from: l.to, to: &place{
		server: l.from.server, faults: l.from.faults, client: l.from.client, store: objstoretest.NewMemory(s3), s3: s3,
		url: "s3://" + homeAt + "/" + name,
	}}
}

// The copy of a copy names the whole chain, and is announced as EC2 makes it: it is incremental to those alone that came
// the same way, whatever other copies of the volume there are.
func TestRun_CopyOfACopy_NamesTheChainAndIsALineageOfItsOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	back := l.onward("back")
	beside := &lab{topology: l.topology, from: l.from, to: l.onward("beside").to} // copies of the same volumes, at home
	first := l.backup(t)
	l.run(t, first, "run-1")
	beside.run(t, first, "run-2")
	require.Equal(t, copyplan.First, back.run(t, first, "run-3").Plan.Copies[0].Full)

	m, err := catalogOf(back.to).Load(t.Context(), first)
	require.NoError(t, err)
	there, err := catalogOf(back.from).Load(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, awayAt, m.CopyOf.Region)
	require.Equal(t, away, m.CopyOf.Account)
	require.EqualValues(t, "run-1", m.CopyOf.Run)
	require.Equal(t, there.CopyOf, m.CopyOf.CopyOf)
	require.Equal(t, homeAt, m.CopyOf.CopyOf.Region)
	require.Equal(t, home, m.CopyOf.CopyOf.Account)
	require.EqualValues(t, "made", m.CopyOf.CopyOf.Run)
	require.Nil(t, m.CopyOf.CopyOf.CopyOf, "the one that was cut")
	require.Equal(t, awayAt+"/"+away, m.CopyOf.Over())
	require.Empty(t, there.CopyOf.Over())
	for n, s := range m.Snapshots {
		require.Equal(t, there.Snapshots[n].ID, s.CopiedFrom)
		require.Equal(t, there.Snapshots[n].Volume, s.Volume)
		got, _, ok := back.to.server.Snapshot(s.ID)
		require.True(t, ok)
		require.Equal(t, awayAt+"/"+away, got.Tags[ebs.TagCopiedOver])
	}

	second := l.backup(t)
	l.run(t, second, "run-4")
	require.Equal(t, copyplan.Incremental, back.run(t, second, "run-5").Plan.Copies[0].Full)
	var full []string
	for _, c := range back.to.server.Copies() {
		full = append(full, c.Full)
	}
	require.Equal(t, []string{"", "", ebstest.FullFirst, ebstest.FullFirst, "", ""}, full, "as it was announced")
}
