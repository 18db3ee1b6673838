package scale

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/flashstore"
)

// inProcess runs the command line in this process, so that the race detector sees it.
func inProcess(t *testing.T) func(*testbed.Testbed) Program {
	return func(bed *testbed.Testbed) Program {
		return func(ctx context.Context, args []string, stdout io.Writer) (int, error) {
			var stderr bytes.Buffer
			code := cli.Run(ctx, append(args, "--endpoint-url", bed.AWS(), "--region", testbed.Region, "--kubeconfig", bed.Kubeconfig(), "--progress", "plain"),
				cli.Streams{Out: stdout, Err: &stderr}, cli.Version{Version: "test"})
			if code != cli.ExitDone {
				t.Log(stderr.String())
			}
			return int(code), nil
		}
	}
}

// The whole model, small and very fast: the restore is the program's own, and flashes back what has changed and nothing else.
// Every delay of the model is in the time that it takes.
func TestMeasureRestores_SmallModel_FlashesBackWhatHasChanged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all, err := MeasureRestores(ctx, inProcess(t), RestoreConfig{Regions: 200, Speed: 200, Seed: 1, Limits: []RestoreLimit{{Changed: 0.1, AtMost: 0.01}}})
	require.NoError(t, err)
	require.Len(t, all, 1)
	r := all[0]
	require.Equal(t, []int{publishedStores, 200, 20, 180}, []int{r.Stores, r.Regions, r.Flashed, r.Unchanged})
	require.GreaterOrEqual(t, r.Seconds, r.Least)
	require.False(t, r.Met)
	require.Contains(t, r.String(), "must be at most 1 %")
	require.Contains(t, r.String(), "NOT MET")
	require.NotEmpty(t, r.Phases)
}

func TestLeastSeconds_AreThoseOfThePublishedCase(t *testing.T) {
	t.Parallel()
	// 60 + 190 + 786 + 60 s, with the volumes beside PD, and without PD's wait for the first report of a store.
	require.InDelta(t, 1096-10, leastSeconds(1), 1e-9)
	require.InDelta(t, 300+7.86, leastSeconds(0.01), 1e-9)
}

func TestModelCluster_Check_CountsWhatTheStoresTookBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Restore) bool{
		"as many as have changed":        func(*Restore) bool { return true },
		"not restored":                   func(*Restore) bool { return false },
		"the report has fewer flashed":   func(r *Restore) bool { r.Flashed--; return true },
		"the report has fewer unchanged": func(r *Restore) bool { r.Unchanged--; return true },
		"the stores took more back":      func(r *Restore) bool { r.Regions += 10; r.Flashed++; r.Unchanged += 9; return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &flashstore.Store{}
			s.Counts().Flashbacks.Store(10)
			c := &modelCluster{changed: 10, stores: map[string]*flashstore.Store{"pod": s}}
			r := &Restore{Regions: 100, Flashed: 10, Unchanged: 90}
			err := c.check(change(r), r)
			require.Equal(t, name == "as many as have changed", err == nil)
		})
	}
}
