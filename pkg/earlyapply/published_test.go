package earlyapply_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

const heading = "early-apply-reading"

// notebook is PD as far as it keeps documents.
type notebook struct {
	bodies map[string][]byte
	order  []string // of what was written, and removed with a minus
	fails  string   // this document cannot be written
	loses  string   // the first answer to a write of it is lost
}

func (n *notebook) Note(_ context.Context, name string) ([]byte, int64, error) {
	body, there := n.bodies[name]
	if !there {
		return nil, 0, nil
	}
	return body, 7, nil
}

func (n *notebook) PutNote(_ context.Context, name string, body []byte, _ int64) error {
	switch {
	case name == n.fails:
		return failure.New(failure.Denied, "write note", name, "no")
	case body == nil:
		delete(n.bodies, name)
		n.order = append(n.order, "-"+name)
	default:
		n.bodies[name] = append([]byte{}, body...)
		n.order = append(n.order, name)
	}
	if name == n.loses {
		n.loses = ""
		return failure.New(failure.Conflict, "write note", name, "it is no longer at revision 0")
	}
	return nil
}

// publish reads twoRegions' replicas and publishes their states.
func publish(t *testing.T, n *notebook, run cluster.RunID) ([]cluster.Region, *fleet) {
	t.Helper()
	regions, f := twoRegions()
	read := earlyapply.ReadReplicas(t.Context(), f, three(), regions)
	require.NoError(t, earlyapply.Publish(t.Context(), n, run, read))
	return regions, f
}

func TestPublished_ComparesAsWhatWasRead(t *testing.T) {
	t.Parallel()
	type now struct {
		fleet   *fleet
		stores  []earlyapply.Store
		regions []cluster.Region
	}
	for _, tc := range []struct {
		name    string
		change  func(now)
		stores  []cluster.StoreID
		regions []cluster.RegionID
	}{
		{name: "nothing happened", change: func(now) {}},
		{name: "a term is another", change: func(n now) { n.fleet.states["b"][20] = level(8) }, regions: []cluster.RegionID{20}},
		{name: "a region was split", change: func(n now) { n.regions[1].Version++ }, regions: []cluster.RegionID{10}},
		{name: "a replica was moved", change: func(n now) { n.regions[0].ConfVer++ }, regions: []cluster.RegionID{20}},
		{name: "a store was restarted", change: func(n now) {
			n.stores[2].StartedAt = n.stores[2].StartedAt.Add(time.Nanosecond)
		}, stores: []cluster.StoreID{3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := &notebook{bodies: map[string][]byte{}}
			regions, f := publish(t, n, "pause")
			run, before, err := earlyapply.Published(t.Context(), n)
			require.NoError(t, err)
			require.EqualValues(t, "pause", run)
			require.Equal(t, []cluster.StoreID{1, 2, 3}, before.Stores())
			stores := three()
			tc.change(now{f, stores, regions})
			gotStores, gotRegions := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, stores, regions))
			require.Equal(t, tc.stores, gotStores)
			require.Equal(t, tc.regions, gotRegions)
		})
	}
}

func TestPublish_RegionThatIsAheadOrUnread_IsUnproven(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{}}
	regions, f := twoRegions()
	f.states["c"][10] = tikv.RaftState{Term: 6, Last: 20, Applied: 21}
	delete(f.states["a"], 20)
	f.states["b"][20] = level(14) // which makes up for the other one's
	require.NoError(t, earlyapply.Publish(t.Context(), n, "r", earlyapply.ReadReplicas(t.Context(), f, three(), regions)))
	f.states["c"][10], f.states["a"][20], f.states["b"][20] = level(6), level(7), level(7)
	_, before, err := earlyapply.Published(t.Context(), n)
	require.NoError(t, err)
	_, unproven := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, three(), regions))
	require.Equal(t, []cluster.RegionID{10, 20}, unproven)
}

func TestPublished_NotWhole_IsNotTaken(t *testing.T) {
	t.Parallel()
	edit := func(n *notebook, name, from, to string) {
		n.bodies[name] = []byte(strings.Replace(string(n.bodies[name]), from, to, 1))
	}
	for _, tc := range []struct {
		name   string
		damage func(*notebook)
		kind   failure.Kind
	}{
		{"nothing was published", func(n *notebook) { n.bodies = nil }, failure.NotFound},
		{"killed before the heading", func(n *notebook) { delete(n.bodies, heading) }, failure.NotFound},
		{"a part is missing", func(n *notebook) { delete(n.bodies, heading+"-0") }, failure.Corrupt},
		{"a part is short", func(n *notebook) { n.bodies[heading+"-0"] = n.bodies[heading+"-0"][1:] }, failure.Corrupt},
		{"a term is another", func(n *notebook) { n.bodies[heading+"-0"][3]++ }, failure.Corrupt},
		{"a store is another", func(n *notebook) { edit(n, heading, `"id":3`, `"id":4`) }, failure.Corrupt},
		{"the run is another", func(n *notebook) { edit(n, heading, `"run":"pause"`, `"run":"other"`) }, failure.Corrupt},
		{"the count is another", func(n *notebook) { edit(n, heading, `"regions":2`, `"regions":3`) }, failure.Corrupt},
		{"a part is another run's", func(n *notebook) {
			regions, f := twoRegions()
			f.states["a"][10] = level(5)
			other := &notebook{bodies: map[string][]byte{}}
			read := earlyapply.ReadReplicas(t.Context(), f, three(), regions)
			require.NoError(t, earlyapply.Publish(t.Context(), other, "other", read))
			n.bodies[heading+"-0"] = other.bodies[heading+"-0"]
		}, failure.Corrupt},
		{"the version is another", func(n *notebook) { edit(n, heading, `"version":1`, `"version":2`) }, failure.Corrupt},
		{"the heading is none", func(n *notebook) { n.bodies[heading] = []byte("?") }, failure.Corrupt},
		{"the size is absurd", func(n *notebook) { edit(n, heading, `"size":`, `"size":9999999`) }, failure.Corrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := &notebook{bodies: map[string][]byte{}}
			publish(t, n, "pause")
			tc.damage(n)
			_, r, err := earlyapply.Published(t.Context(), n)
			require.Equal(t, tc.kind, failure.KindOf(err), "%v", err)
			require.NotEmpty(t, failure.HintOf(err))
			require.Nil(t, r)
			require.NoError(t, earlyapply.Unpublish(t.Context(), n, ""))
			require.Empty(t, n.bodies, "whatever is left can be removed")
		})
	}
}

// An unknown version is reported as one, and not taken for damaged.
func TestPublished_OtherVersion_IsNamed(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{heading: []byte(`{"version":2}`)}}
	_, _, err := earlyapply.Published(t.Context(), n)
	require.ErrorContains(t, err, "version 2")
}

// Whenever the process is killed, the parts that are there are those from 0 on, and the heading stands for all of them.
func TestPublish_HeadingIsWrittenLastAndRemovedFirst(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{}}
	publish(t, n, "killed")
	publish(t, n, "pause")
	require.Equal(t, []string{
		heading + "-0", heading,
		"-" + heading, "-" + heading + "-0", heading + "-0", heading,
	}, n.order)
}

func TestUnpublish_RemovesPartsFromTheLastOn(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{}}
	for _, part := range []string{"0", "1", "2"} {
		n.bodies[heading+"-"+part] = []byte("left by a run that was killed before it wrote the heading")
	}
	require.NoError(t, earlyapply.Unpublish(t.Context(), n, "pause"))
	require.Equal(t, []string{"-" + heading + "-2", "-" + heading + "-1", "-" + heading + "-0"}, n.order)
	require.Empty(t, n.bodies)
}

func TestUnpublish_OfARun_LeavesAnotherRuns(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{}}
	publish(t, n, "next")
	require.NoError(t, earlyapply.Unpublish(t.Context(), n, "pause"))
	require.Len(t, n.bodies, 2)
	require.NoError(t, earlyapply.Unpublish(t.Context(), n, "next"))
	require.Empty(t, n.bodies)
	require.NoError(t, earlyapply.Unpublish(t.Context(), n, "next"))
}

func TestPublish_PDRefusesTheHeading_IsAnErrorAndNotTaken(t *testing.T) {
	t.Parallel()
	n := &notebook{bodies: map[string][]byte{}, fails: heading}
	regions, f := twoRegions()
	err := earlyapply.Publish(t.Context(), n, "r", earlyapply.ReadReplicas(t.Context(), f, three(), regions))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	_, _, err = earlyapply.Published(t.Context(), n)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

// An answer that was lost is found out by a look at what is there: the write that is repeated is of an older revision.
func TestPublish_AnswerIsLost_IsPublishedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &notebook{bodies: map[string][]byte{}, loses: heading}
		publish(t, n, "pause")
		require.Equal(t, []string{heading + "-0", heading}, n.order)
	})
}
