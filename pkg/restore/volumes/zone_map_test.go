package volumes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestMapZones_EachSource_HasOnePlace(t *testing.T) {
	t.Parallel()
	source := zoneSet{"us-west-2a": "usw2-az1", "us-west-2b": "usw2-az2"}
	// In the other account the names of the two places are swapped.
	other := zoneSet{"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1", "us-west-2c": "usw2-az3"}
	unknown := zoneSet{"us-west-2a": "", "us-west-2b": "", "us-west-2c": ""}
	for name, row := range map[string]struct {
		source, target zoneSet
		all            cluster.Zone
		pairs          []string
		want           [2]cluster.Zone // of 2a and 2b
	}{
		"same account":               {source, source, "", nil, [2]cluster.Zone{"us-west-2a", "us-west-2b"}},
		"by id across accounts":      {source, other, "", nil, [2]cluster.Zone{"us-west-2b", "us-west-2a"}},
		"by name without ids":        {source, unknown, "", nil, [2]cluster.Zone{"us-west-2a", "us-west-2b"}},
		"an old backup without ids":  {unknown, other, "", []string{"2c=2a"}, [2]cluster.Zone{"us-west-2a", "us-west-2b"}},
		"all into one":               {source, other, "us-west-2c", nil, [2]cluster.Zone{"us-west-2c", "us-west-2c"}},
		"all into one by id":         {source, other, "usw2-az3", nil, [2]cluster.Zone{"us-west-2c", "us-west-2c"}},
		"one mapped, one by id":      {source, other, "", []string{"us-west-2a=us-west-2c"}, [2]cluster.Zone{"us-west-2c", "us-west-2a"}},
		"short names":                {source, source, "", []string{"2a=2b", "2b=2a"}, [2]cluster.Zone{"us-west-2b", "us-west-2a"}},
		"ids on both sides":          {source, other, "", []string{"usw2-az1=usw2-az3"}, [2]cluster.Zone{"us-west-2c", "us-west-2a"}},
		"two zones into one":         {source, other, "", []string{"2a=2c", "2b=2c"}, [2]cluster.Zone{"us-west-2c", "us-west-2c"}},
		"the letter with the number": {source, source, "2b", nil, [2]cluster.Zone{"us-west-2b", "us-west-2b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs, err := ParseZonePairs(row.pairs)
			require.NoError(t, err)
			got, err := mapZones(row.source, row.all, pairs, row.target)
			require.NoError(t, err)
			require.Equal(t, row.want, [2]cluster.Zone{got["us-west-2a"], got["us-west-2b"]})
		})
	}
}

func TestMapZones_NoPlace_IsRefused(t *testing.T) {
	t.Parallel()
	source := zoneSet{"us-west-2a": "usw2-az1", "us-west-2b": "usw2-az2"}
	for name, row := range map[string]struct {
		target zoneSet
		all    cluster.Zone
		pairs  []string
	}{
		"the place is not there":          {zoneSet{"us-west-2a": "usw2-az1"}, "", nil},
		"same name, another place":        {zoneSet{"us-west-2a": "usw2-az1", "us-west-2b": "usw2-az9"}, "", nil},
		"the one zone is not there":       {source, "us-west-2d", nil},
		"a pair to nowhere":               {source, "", []string{"2a=2d"}},
		"a pair from nowhere":             {source, "", []string{"2c=2a"}},
		"one place by two words":          {source, "", []string{"2a=2b", "usw2-az1=2a"}},
		"another region, nothing mapped":  {zoneSet{"eu-west-1a": "euw1-az1"}, "", nil},
		"a word that means several zones": {zoneSet{"us-west-2a": "x", "eu-west-2a": "y"}, "2a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs, err := ParseZonePairs(row.pairs)
			require.NoError(t, err)
			_, err = mapZones(source, row.all, pairs, row.target)
			require.Equal(t, failure.Usage, failure.KindOf(err))
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}

func TestMapZones_LocalZone_IsNamed(t *testing.T) {
	t.Parallel()
	source := zoneSet{"us-west-2-lax-1a": ""}
	region := zoneSet{"us-west-2a": "usw2-az1"}
	_, err := mapZones(source, "", nil, region)
	require.ErrorContains(t, err, "it is a Local Zone, where no volumes are restored")
	require.Contains(t, failure.HintOf(err), "--az-map us-west-2-lax-1a=us-west-2a")
	_, err = mapZones(region, "us-west-2-lax-1a", nil, region)
	require.ErrorContains(t, err, "it is a Local Zone, where no volumes are restored")
	to, err := mapZones(source, "us-west-2a", nil, region)
	require.NoError(t, err)
	require.Equal(t, cluster.Zone("us-west-2a"), to["us-west-2-lax-1a"])
}

func TestParseZonePairs_Malformed_IsUsage(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]string{{""}, {"a"}, {"=b"}, {"a="}, {"a=b=c"}, {"2a=2b", "2a=2c"}} {
		t.Run(strings.Join(entries, ","), func(t *testing.T) {
			t.Parallel()
			_, err := ParseZonePairs(entries)
			require.Equal(t, failure.Usage, failure.KindOf(err))
		})
	}
}
