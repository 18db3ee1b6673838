package workload_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// backup holds the cluster, takes a resolved ts, and cuts the stores one after the other.
func (c *standIns) backup(t *testing.T, w *workload.Workload) (cluster.TS, [][]*disk.Image) {
	t.Helper()
	ctx := within(t, 60*time.Second)
	oracle, client := c.clients(t)
	var leases []tikv.Lease
	for _, s := range c.stores {
		lease, err := client.OpenLease(ctx, s.Addr())
		require.NoError(t, err)
		defer lease.Close()
		leases = append(leases, lease)
	}
	for _, lease := range leases {
		_, err := lease.Renew(ctx, time.Minute)
		require.NoError(t, err)
	}
	c.settle(ctx, t, oracle, client, leases)
	now, err := oracle.Now(ctx)
	require.NoError(t, err)
	var resolved pd.ResolvedTS
	require.Eventually(t, func() bool {
		var err error
		resolved, err = oracle.ResolvedTS(ctx)
		return err == nil && resolved.TS > now
	}, 30*time.Second, 20*time.Millisecond)
	var images [][]*disk.Image
	for _, d := range c.devices {
		images = append(images, disk.Cut(d[0], d[1]))
		next := w.Counters().Commits + 10 // the transfers continue between the cuts
		require.Eventually(t, func() bool { return w.Counters().Commits >= next }, 30*time.Second, 5*time.Millisecond)
	}
	for _, lease := range leases {
		valid, err := lease.Finish(ctx)
		require.NoError(t, err)
		require.True(t, valid)
	}
	return resolved.TS, images
}

// settle waits until nothing is pending and all leaders have applied.
func (c *standIns) settle(ctx context.Context, t *testing.T, oracle *pd.Client, client *tikv.Client, leases []tikv.Lease) {
	t.Helper()
	require.Eventually(t, func() bool {
		regions, err := oracle.Regions(ctx, cluster.KeyRange{})
		require.NoError(t, err)
		for i, s := range c.stores {
			_, pending, err := client.LedRegions(ctx, s.Addr())
			require.NoError(t, err)
			var led []cluster.Region
			for _, r := range regions {
				if uint64(r.Leader.Store) == s.ID() {
					led = append(led, r)
				}
			}
			failed, err := leases[i].WaitApply(ctx, led)
			require.NoError(t, err)
			if len(pending)+len(failed) > 0 {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond)
}

func (c *standIns) clients(t *testing.T) (*pd.Client, *tikv.Client) {
	t.Helper()
	oracle, err := pd.Open(within(t, 30*time.Second), pd.Config{Addresses: c.pd.URLs()})
	require.NoError(t, err)
	client := tikv.Open(tikv.Config{})
	t.Cleanup(func() {
		client.Close()
		oracle.Close()
	})
	return oracle, client
}

// restore makes a cluster of the images, recovers it and flashes it back to ts.
func restore(t *testing.T, ts cluster.TS, images [][]*disk.Image) *standIns {
	t.Helper()
	ctx := within(t, 60*time.Second)
	c := startPD(t)
	oracle, client := c.clients(t)
	require.NoError(t, oracle.MarkRecovering(ctx))
	// Or PD's schedulers move the leaders away from where Recover wants them.
	require.NoError(t, oracle.SetTTLConfig(ctx, map[string]any{
		"schedule.leader-schedule-limit": 0, "schedule.region-schedule-limit": 0,
	}, time.Minute))
	require.NoError(t, oracle.RaiseTS(ctx, ts+cluster.TS(time.Hour.Milliseconds())<<18))
	require.NoError(t, oracle.RaiseAllocID(ctx, 100_000))
	for _, pair := range images {
		data, err := disk.FromImage(pair[0], pair[0].Size())
		require.NoError(t, err)
		raftLog, err := disk.FromImage(pair[1], pair[1].Size())
		require.NoError(t, err)
		c.startStore(t, data, raftLog)
	}
	c.elect(ctx, t, client)
	c.flashBack(ctx, t, oracle, client, ts)
	return c
}

// elect lets the longest log of each region lead.
func (c *standIns) elect(ctx context.Context, t *testing.T, client *tikv.Client) {
	t.Helper()
	best, leader := map[cluster.RegionID]tikv.RegionMeta{}, map[cluster.RegionID]int{}
	for i, s := range c.stores {
		require.NoError(t, client.RegionMetas(ctx, s.Addr(), func(m tikv.RegionMeta) error {
			b, ok := best[m.Region]
			if !ok || m.LastLogTerm > b.LastLogTerm || m.LastLogTerm == b.LastLogTerm && m.LastIndex > b.LastIndex {
				best[m.Region], leader[m.Region] = m, i
			}
			return nil
		}))
	}
	var recovering sync.WaitGroup
	for i, s := range c.stores {
		var plan []tikv.Command
		for id := range best {
			plan = append(plan, tikv.Command{Region: id, AsLeader: leader[id] == i})
		}
		recovering.Go(func() {
			if err := client.Recover(ctx, s.Addr(), plan); err != nil {
				t.Errorf("recover: %v", err)
			}
		})
	}
	recovering.Wait()
	for _, s := range c.stores {
		require.NoError(t, client.WaitApply(ctx, s.Addr(), cluster.StoreID(s.ID())))
	}
}

func (c *standIns) flashBack(ctx context.Context, t *testing.T, oracle *pd.Client, client *tikv.Client, ts cluster.TS) {
	t.Helper()
	addresses := map[cluster.StoreID]string{}
	for _, s := range c.stores {
		addresses[cluster.StoreID(s.ID())] = s.Addr()
	}
	var regions []cluster.Region
	require.Eventually(t, func() bool {
		var err error
		regions, err = oracle.Regions(ctx, cluster.KeyRange{})
		require.NoError(t, err)
		for _, r := range regions {
			if addresses[r.Leader.Store] == "" {
				return false
			}
		}
		return true
	}, 30*time.Second, 20*time.Millisecond)
	start, err := oracle.Now(ctx)
	require.NoError(t, err)
	commit, err := oracle.Now(ctx)
	require.NoError(t, err)
	for _, call := range []func(context.Context, string, tikv.Flashback) error{client.PrepareFlashback, client.Flashback} {
		for _, r := range regions {
			keys, err := tikv.DecodeRange(r.Keys)
			require.NoError(t, err)
			require.NoError(t, call(ctx, addresses[r.Leader.Store], tikv.Flashback{
				Region: r, Keys: keys, Version: ts, StartTS: start, CommitTS: commit,
			}))
		}
	}
}

func TestVerifyRestored_SkewedCopiesOfLiveCluster_AreExactlyTheBackupTS(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 2000, Clients: 8, Regions: 5, Interval: 20 * time.Millisecond})
	ctx, stop := context.WithCancel(within(t, 120*time.Second))
	defer stop()
	var running sync.WaitGroup
	for _, f := range []func(context.Context) error{w.Run, w.Churn} {
		running.Go(func() {
			if err := f(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	require.Eventually(t, func() bool { return w.Counters().Commits > 200 }, 60*time.Second, 5*time.Millisecond)
	ts, images := c.backup(t, w)
	stop()
	running.Wait()
	require.NoError(t, w.Settle(within(t, 30*time.Second)))

	restored := restore(t, ts, images)
	verify := within(t, 60*time.Second)
	conn, err := workload.Connect(verify, restored.pd.URLs())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r, err := w.History().VerifyRestored(verify, conn, ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Rows, 2000)
	require.Equal(t, w.History().Total(), r.Total)

	// The proof is one: the rows of another time differ from those of the backup ts.
	early, err := conn.CopyAt(verify, ts)
	require.NoError(t, err)
	now, err := conn.Now(verify)
	require.NoError(t, err)
	require.Error(t, w.History().Check(early, now).Err())
}
