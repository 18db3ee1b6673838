package resolve_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// peer is the meta of a region of [start, end).
func peer(id cluster.RegionID, start, end string) tikv.RegionMeta {
	return tikv.RegionMeta{
		Region: id, PeerID: cluster.PeerID(id) + 1000, LastLogTerm: 5, LastIndex: 10, Version: 1, Keys: cluster.KeyRange{Start: []byte(start), End: []byte(end)},
	}
}

// rack is PD's list of stores and the metas of the stores. Nothing else of them is asked for by collect and plan.
type rack struct {
	resolve.PD
	tikv.Recoverer
	tikv.Flashbacker

	states func(address string, call int) (tikv.RaftState, error) // nil is a log that ends where the data do

	mu      sync.Mutex
	list    func(call int) ([]pd.Store, error)
	report  func(address string, call int, each func(tikv.RegionMeta) error) error
	hang    map[string]bool // addresses whose stream sends nothing until the caller cancels
	lists   int
	log     *zap.Logger
	streams map[string]int
	asked   map[string]int // for raft states, by address
	limits  map[string]string
}

func (k *rack) Stores(context.Context) ([]pd.Store, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists++
	return k.list(k.lists)
}

func (k *rack) RegionMetas(ctx context.Context, address string, each func(tikv.RegionMeta) error) error {
	k.mu.Lock()
	k.streams[address]++
	call := k.streams[address]
	k.mu.Unlock()
	if err := k.report(address, call, each); err != nil {
		return err
	}
	if k.hang[address] {
		<-ctx.Done()
		return failure.Annotate(ctx.Err(), "read region metas", address)
	}
	return nil
}

func (k *rack) ClusterID(context.Context) (uint64, error) { return 7, nil }

func (k *rack) TTLConfig(context.Context) (map[string]string, error) { return k.limits, nil }

func (k *rack) RaftState(_ context.Context, address string, _ cluster.RegionID) (tikv.RaftState, error) {
	k.mu.Lock()
	k.asked[address]++
	call := k.asked[address]
	k.mu.Unlock()
	if k.states == nil {
		return tikv.RaftState{Last: 10, Applied: 10}, nil
	}
	return k.states(address, call)
}

// upStores are stores 1 to n of a process that started at the given second.
func upStores(started int64, ids ...cluster.StoreID) []pd.Store {
	var out []pd.Store
	for _, id := range ids {
		out = append(out, pd.Store{ID: id, Address: fmt.Sprintf("store-%s", id), State: pd.StoreUp, StartedAt: time.Unix(started, 0)})
	}
	return out
}

// newRack is three stores that all hold region 1.
func newRack() *rack {
	return &rack{
		streams: map[string]int{}, asked: map[string]int{}, hang: map[string]bool{},
		list:   func(int) ([]pd.Store, error) { return upStores(1, 1, 2, 3), nil },
		report: func(_ string, _ int, each func(tikv.RegionMeta) error) error { return each(peer(1, "", "")) },
	}
}

// plan carries out the steps collect and plan.
func (k *rack) plan(t *testing.T, change ...func(*resolve.Config)) (*plan.Plan, error) {
	t.Helper()
	cfg := resolve.Config{
		Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "run", BackupTS: 1, Stores: []cluster.StoreID{1, 2, 3}, Stall: time.Minute,
	}
	for _, f := range change {
		f(&cfg)
	}
	r := resolve.New(k, k.log)
	r.Target(cfg, k)
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "run/")
	err := phase.New(phase.Config{Run: cfg.Run, Journal: journal}).Run(t.Context(), r.PlanSteps("resolve data", resolve.StepOptions{}))
	return r.Plan(), err
}

func TestCollect_StoresAsTheyAre_AreRead(t *testing.T) {
	t.Parallel()
	lost := failure.New(failure.Unknown, "read region metas", "", "the connection was reset")
	cases := []struct {
		name   string
		change func(k *rack)
		asked  map[string]int // how often each store is
	}{
		{"all up", func(*rack) {}, map[string]int{"store-1": 1, "store-2": 1, "store-3": 1}},
		{"PD lists them one by one, and not at all at first", func(k *rack) {
			k.list = func(call int) ([]pd.Store, error) {
				switch {
				case call < 3:
					return nil, failure.New(failure.Unready, "list stores", "", "the cluster has no store yet")
				case call < 5:
					return nil, nil
				}
				return upStores(1, 1, 2, 3)[:min(3, call-4)], nil
			}
		}, map[string]int{"store-1": 1, "store-2": 1, "store-3": 1}},
		{"a stream breaks half-way, twice", func(k *rack) {
			k.report = func(address string, call int, each func(tikv.RegionMeta) error) error {
				if address == "store-2" && call < 3 {
					require.NoError(t, each(peer(9, "", "b"))) // what comes of a stream that breaks counts for nothing
					return lost
				}
				return each(peer(1, "", ""))
			}
		}, map[string]int{"store-1": 1, "store-2": 3, "store-3": 1}},
		{"a store restarts after it was read, and has applied a split", func(k *rack) {
			k.list = func(call int) ([]pd.Store, error) {
				stores := upStores(1, 1, 2, 3)
				if call > 1 {
					stores[1].StartedAt, stores[1].Address = time.Unix(2, 0), "store-2-restarted"
				}
				return stores, nil
			}
			k.report = func(address string, _ int, each func(tikv.RegionMeta) error) error {
				if address == "store-2" {
					return each(peer(2, "", "b"))
				}
				return each(peer(1, "", ""))
			}
		}, map[string]int{"store-1": 1, "store-2": 1, "store-2-restarted": 1, "store-3": 1}},
		{"a store restarts while its stream sends nothing", func(k *rack) {
			k.hang["store-2"] = true
			k.list = func(call int) ([]pd.Store, error) {
				stores := upStores(1, 1, 2, 3)
				if call > 5 {
					stores[1].StartedAt, stores[1].Address = time.Unix(2, 0), "store-2-restarted"
				}
				return stores, nil
			}
		}, map[string]int{"store-1": 1, "store-2": 1, "store-2-restarted": 1, "store-3": 1}},
		{"other stores are no business of ours", func(k *rack) {
			k.list = func(int) ([]pd.Store, error) {
				gone, flash := upStores(1, 8)[0], upStores(1, 9)[0]
				gone.State, flash.Labels = pd.StoreTombstone, map[string]string{"engine": "tiflash"}
				return append(upStores(1, 1, 2, 3), gone, flash), nil
			}
		}, map[string]int{"store-1": 1, "store-2": 1, "store-3": 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				c.change(k)
				plan, err := k.plan(t)
				require.NoError(t, err)
				require.Equal(t, c.asked, k.streams)
				require.Len(t, plan.Leaders, 1)
				require.Equal(t, cluster.RegionID(1), plan.Leaders[0].Region)
				require.Equal(t, 3, plan.Peers)
			})
		})
	}
}

func TestCollect_WhatDoesNotCome_EndsTheRun(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(k *rack)
		kind   failure.Kind
		want   []string
		after  time.Duration // at least
	}{
		{"a store too many", func(k *rack) {
			k.list = func(int) ([]pd.Store, error) { return upStores(1, 1, 2, 3, 4), nil }
		}, failure.Unready, []string{"store 4 is not in the backup"}, 0},
		{"a store too few", func(k *rack) {
			k.list = func(int) ([]pd.Store, error) { return upStores(1, 1, 3), nil }
		}, failure.Limited, []string{"store 2 is missing", "for 1m0s"}, time.Minute},
		{"a stream that sends nothing", func(k *rack) { k.hang["store-3"] = true }, failure.Limited, []string{"nothing comes from store 3 (store-3)"}, time.Minute},
		{"a store that breaks each time", func(k *rack) {
			k.report = func(address string, _ int, each func(tikv.RegionMeta) error) error {
				if address == "store-1" {
					return failure.New(failure.Unknown, "read region metas", address, "connection refused")
				}
				return each(peer(1, "", ""))
			}
		}, failure.Limited, []string{"nothing comes from store 1 (store-1)", "connection refused"}, time.Minute},
		{"a store out of recovery mode", func(k *rack) {
			k.report = func(string, int, func(tikv.RegionMeta) error) error {
				return failure.New(failure.Unready, "read region metas", "", "unimplemented")
			}
		}, failure.Unready, []string{"unimplemented"}, 0},
		{"PD does not answer", func(k *rack) {
			k.list = func(int) ([]pd.Store, error) {
				return nil, failure.New(failure.Unknown, "list stores", "", "no leader")
			}
		}, failure.Unknown, []string{"no leader"}, time.Minute},
		{"PD stops to answer", func(k *rack) {
			k.list = func(call int) ([]pd.Store, error) {
				if call > 1 {
					return nil, failure.New(failure.Unknown, "list stores", "", "no leader")
				}
				return upStores(1, 1, 2, 3), nil
			}
		}, failure.Unknown, []string{"no leader"}, time.Minute},
		{"PD refuses", func(k *rack) {
			k.list = func(int) ([]pd.Store, error) {
				return nil, failure.New(failure.Denied, "list stores", "", "certificate")
			}
		}, failure.Denied, []string{"certificate"}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				c.change(k)
				start := time.Now()
				_, err := k.plan(t)
				require.Equal(t, c.kind, failure.KindOf(err), "%v", err)
				for _, want := range c.want {
					require.ErrorContains(t, err, want)
				}
				require.GreaterOrEqual(t, time.Since(start), c.after)
				require.LessOrEqual(t, time.Since(start), c.after+time.Second)
			})
		})
	}
}

func TestCollect_ToleratedStore_IsNotAskedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string][]pd.Store{"missing": upStores(1, 1, 3), "there": upStores(1, 1, 2, 3)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				k.list = func(int) ([]pd.Store, error) { return slices.Clone(listed), nil }
				plan, err := k.plan(t, func(c *resolve.Config) { c.TolerateStores = []cluster.StoreID{2} })
				require.NoError(t, err)
				require.Equal(t, map[string]int{"store-1": 1, "store-3": 1}, k.streams)
				require.Equal(t, []cluster.StoreID{2}, plan.Lost)
				require.Equal(t, 2, plan.Fewest)
				require.Equal(t, []cluster.RegionID{1}, plan.Degraded)
				require.Len(t, plan.Commands, 2)
			})
		})
	}
}
