package cluster_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestParseName_EachForm(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	cases := []struct {
		in, fallback string
		want         string // empty: refused
	}{
		{"prod", "tidb", "tidb/prod"},
		{"other/prod", "tidb", "other/prod"},
		{"a-1/2b", "", "a-1/2b"},
		{long + "/" + long, "", long + "/" + long},
		{"prod", "", ""},
		{"", "tidb", ""},
		{"/prod", "tidb", ""},
		{"tidb/", "tidb", ""},
		{"a/b/c", "tidb", ""},
		{"Prod", "tidb", ""},
		{"pro_d", "tidb", ""},
		{"-prod", "tidb", ""},
		{"prod-", "tidb", ""},
		{"prod ", "tidb", ""},
		{"pröd", "tidb", ""},
		{long + "a", "tidb", ""},
	}
	for _, c := range cases {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			name, err := cluster.ParseName(c.in, c.fallback)
			if c.want == "" {
				require.Equal(t, failure.Usage, failure.KindOf(err))
				require.ErrorContains(t, err, "lower-case letters, digits and hyphens")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, name.String())
		})
	}
}

func TestTS_PartsAndLag(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 123_000_000, time.UTC)
	ts := cluster.MakeTS(at, 5)
	require.Equal(t, at, ts.Time())
	require.EqualValues(t, 5, ts&(1<<18-1))
	require.Equal(t, at, cluster.MakeTS(at.Add(999*time.Microsecond), 0).Time(), "to the millisecond")
	require.Equal(t, cluster.MakeTS(at, 0), cluster.MakeTS(at, 1<<18), "the counter never spills into the time")
	require.Greater(t, cluster.MakeTS(at.Add(time.Millisecond), 0), cluster.MakeTS(at, math.MaxUint32))
	require.Equal(t, 3*time.Second, ts.Lag(at.Add(3*time.Second)))
	require.Equal(t, -3*time.Second, ts.Lag(at.Add(-3*time.Second)))
	require.Equal(t, "2026-11-21 11:00:00 +0000 UTC", cluster.MakeTS(at.In(time.FixedZone("", 3600)).Truncate(time.Second).Add(time.Hour), 0).Time().String())
	require.Equal(t, "18446744073709551615", cluster.TS(math.MaxUint64).String())
	require.Equal(t, time.Unix(0, 0).UTC(), cluster.TS(0).Time())
}

func TestIDs_PrintAsDecimals(t *testing.T) {
	t.Parallel()
	require.Equal(t, "18446744073709551615", cluster.StoreID(math.MaxUint64).String())
	require.Equal(t, "7", cluster.RegionID(7).String())
	require.Equal(t, "0", cluster.PeerID(0).String())
}

func TestTopology_VolumeIDs_InOrderOfStores(t *testing.T) {
	t.Parallel()
	top := cluster.Topology{Stores: []cluster.Store{
		{ID: 4, Volumes: []cluster.Volume{{ID: "vol-b"}, {ID: "vol-a"}}},
		{ID: 1},
		{ID: 2, Volumes: []cluster.Volume{{ID: "vol-c"}}},
	}}
	require.Equal(t, []cluster.VolumeID{"vol-b", "vol-a", "vol-c"}, top.VolumeIDs())
	require.Empty(t, (&cluster.Topology{}).VolumeIDs())
}

func TestTopology_JSON_KeepsItsNames(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(cluster.Topology{
		Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: math.MaxUint64, PD: []string{"http://pd:2379"},
		Stores: []cluster.Store{{ID: 1, Volumes: []cluster.Volume{{ID: "vol-1", Role: cluster.RoleData, VolumeSpec: cluster.VolumeSpec{SizeGiB: 10}}}}},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"cluster":{"namespace":"tidb","name":"prod"},"clusterID":18446744073709551615,"version":"",
		"pd":["http://pd:2379"],"pdReplicas":0,"tidbReplicas":0,"stores":[{"id":1,"address":"","pod":"","ordinal":0,
		"node":"","instance":"","volumes":[{"volumeID":"vol-1","role":"storage.data-dir","mountPath":"","pvc":"","pv":"","zone":"","type":"","sizeGiB":10}]}]}`, string(body))
}
