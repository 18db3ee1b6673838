package earlyapply

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// many are regions with numbers as of a cluster that is years old.
func many(count int) *Replicas {
	r := &Replicas{regions: make([]reading, count)}
	for i := range r.regions {
		r.regions[i] = reading{
			id: cluster.RegionID(4_000_000_000 + 150*i), confVer: 20_000, version: 200_000, terms: 5_000, read: true, level: true,
		}
	}
	return r
}

func TestEncode_AMillionRegions_FitIntoPD(t *testing.T) {
	t.Parallel()
	r := many(1_000_000)
	body, count := r.encode()
	require.Equal(t, 1_000_000, count)
	require.Less(t, len(body), 11_000_000)
	require.Less(t, len(body), maxParts*partSize)
	require.Less(t, partSize*4/3, 1<<20, "etcd takes 1.5 MiB, in base64 by its gateway")
	regions, whole := decodeRegions(body, count)
	require.True(t, whole)
	require.True(t, slices.Equal(r.regions, regions))
}

func TestPublish_TooManyRegions_WritesNothing(t *testing.T) {
	t.Parallel()
	err := Publish(t.Context(), nil, "r", many(2_000_000))
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
}

func TestDecodeRegions_CutOff_IsNotWhole(t *testing.T) {
	t.Parallel()
	body, count := many(3).encode()
	for i := range body {
		_, whole := decodeRegions(body[:i], count)
		require.False(t, whole, "%d bytes of %d", i, len(body))
	}
}
