package scale_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed/scale"
)

func TestGrowthOf_SeriesOfSamples(t *testing.T) {
	t.Parallel()
	const runs = 100
	cases := []struct {
		name string
		at   func(run int) scale.Sample
		want string // in the error; "" is no leak
	}{
		{"nothing changes", func(int) scale.Sample { return scale.Sample{Goroutines: 7, Descriptors: 9, HeapBytes: 4 << 20} }, ""},
		{"one sample among the first is low", func(run int) scale.Sample {
			if run == 12 {
				return scale.Sample{Goroutines: 5, Descriptors: 7}
			}
			return scale.Sample{Goroutines: 7, Descriptors: 9}
		}, ""},
		{"one sample among the last is high", func(run int) scale.Sample {
			if run == runs-3 {
				return scale.Sample{Goroutines: 11, Descriptors: 12}
			}
			return scale.Sample{Goroutines: 7, Descriptors: 9}
		}, ""},
		{"the first runs fill what is filled once", func(run int) scale.Sample {
			return scale.Sample{Goroutines: min(run, 6), HeapBytes: uint64(min(run, 6)) << 20}
		}, ""},
		{"each command line stays", func(run int) scale.Sample { return scale.Sample{HeapBytes: uint64(run) * 4 << 10} }, ""},
		{"a process gets smaller", func(run int) scale.Sample {
			return scale.Sample{Goroutines: 2 * runs / (run + 1), HeapBytes: uint64(runs-run) << 20}
		}, ""},
		{"one kind of fault leaves a goroutine", func(run int) scale.Sample {
			return scale.Sample{Goroutines: 7 + run/len(scale.Failures())}
		}, "left 10 goroutines, 0 descriptors"},
		{"each run leaves a connection", func(run int) scale.Sample { return scale.Sample{Descriptors: 9 + run} }, "82 descriptors"},
		{"each run leaves 16 kB", func(run int) scale.Sample { return scale.Sample{HeapBytes: uint64(run) * 16 << 10} }, "bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var samples []scale.Sample
			for run := range runs {
				samples = append(samples, c.at(run))
			}
			grown, err := scale.GrowthOf(samples)
			require.NoError(t, err)
			if c.want == "" {
				assert.NoError(t, grown.Check())
				return
			}
			assert.ErrorContains(t, grown.Check(), c.want)
		})
	}
}

func TestGrowthOf_TooFewRuns_Error(t *testing.T) {
	t.Parallel()
	_, err := scale.GrowthOf(make([]scale.Sample, len(scale.Failures())+19))
	require.ErrorContains(t, err, "too few")
}
