package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/wait"
)

// latency is how long each answer of the slow store takes: a page of a listing has 1,000 keys.
const latency = 5 * time.Millisecond

type slow struct{ objstore.Store }

func (s slow) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if err := wait.For(ctx, latency); err != nil {
		return nil, "", err
	}
	return s.Store.Get(ctx, key)
}

func (s slow) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	found, err := s.Store.List(ctx, prefix)
	if waitErr := wait.For(ctx, time.Duration(len(found)/1000+1)*latency); waitErr != nil {
		return nil, waitErr
	}
	return found, err
}

// BenchmarkRuns_TenThousand reads a storage of 10,000 backups beside the floor of its requests: what the pages of the
// listing take one after another, and the reads 64 at a time.
func BenchmarkRuns_TenThousand(b *testing.B) {
	const runs = 10_000
	store := objstoretest.NewMemory(nil)
	for i := range runs {
		id := cluster.BackupID(fmt.Sprintf("b-%05d", i))
		body := encoded(b, made(report.Backup, cluster.RunID("run-"+string(id)), id, epoch.Add(time.Duration(i)*time.Hour), phase.Done))
		require.NoError(b, catalog.Catalog{Store: store}.PutReport(b.Context(), id, cluster.RunID("run-"+string(id)), body))
	}
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%t", known), func(b *testing.B) {
			reader, floor := history.Open(slow{store}), (runs/1000+1+runs/64)*latency
			if known {
				_, err := reader.Runs(b.Context(), time.Time{})
				require.NoError(b, err)
				floor = (runs/1000 + 1) * latency
			}
			for b.Loop() {
				if !known {
					reader = history.Open(slow{store})
				}
				state, err := reader.Runs(b.Context(), time.Time{})
				require.NoError(b, err)
				require.Len(b, history.NewTrend(state.Runs, epoch).Series[0].Points, runs)
			}
			b.ReportMetric(floor.Seconds(), "floor-s/op")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
		})
	}
}
