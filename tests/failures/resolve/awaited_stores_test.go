package resolve_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// stores lists the ids of the backup's stores.
func (p *place) stores(t *testing.T) []cluster.StoreID {
	t.Helper()
	e := p.run(within(t), t, "describe", round.BackupID)
	var doc struct {
		Snapshots []struct{ Store cluster.StoreID }
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc), e.String())
	var ids []cluster.StoreID
	for _, s := range doc.Snapshots {
		if len(ids) == 0 || ids[len(ids)-1] != s.Store {
			ids = append(ids, s.Store)
		}
	}
	require.Len(t, ids, 3)
	return ids
}

// It has a store that PD hears of late, and then one that it never hears of (tidb-operator#5242), which does not
// answer either: one that answers is up, whatever PD reports. Nothing is resolved on a part of the stores.
// Catalogue: F2.
func TestNotAllStoresAreUp_IsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	late := "tikv." + p.stores(t)[1].String()
	silence := func() {
		p.fault(t, fault.Rule{Point: late + ".StoreHeartbeat", Times: -1})
		p.fault(t, fault.Rule{Point: late + ".ReadRegionMeta", Code: "Unavailable", Times: -1})
	}
	name := p.next()
	var up, early atomic.Bool
	p.fault(t, fault.Rule{Point: "tikv.*.RecoverRegion", Position: fault.Slow, Do: func() { early.Store(!up.Load()) }})
	silence()
	appear := time.AfterFunc(8*time.Second, func() {
		up.Store(true)
		p.faults.Clear()
	})
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	require.False(t, appear.Stop(), "it ended without one of the stores")
	require.False(t, early.Load(), "it began without one of the stores")
	p.verify(t, name)

	name = p.next()
	silence()
	e = p.restore(t, name, "--timeout", "8s", "--keep-on-failure")
	require.Equal(t, exitLimited, e.code, e.String())
	p.reached(t)
	require.Contains(t, e.doc.Report.Error, "stores "+p.stores(t)[1].String()+" are not up")
	p.untouched(t, name)
}

// It stops all progress for seconds, and then for ever (tikv/tikv#13955).
// Catalogue: F7.
func TestStoresMakeNoProgress_IsWaitedOutOrEndsWithTheRegions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	name := p.next()
	p.fault(t, fault.Rule{Point: "tikv.*.KvPrepareFlashbackToVersion", Position: fault.Slow, Delay: 6 * time.Second, Times: 20})
	e := p.restore(t, name)
	require.Zero(t, e.code, e.String())
	p.reached(t)
	p.verify(t, name)

	name = p.next()
	p.fault(t, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Position: fault.Stall, Nth: 3, Times: -1})
	e = p.restore(t, name, "--timeout", "10s", "--keep-on-failure")
	require.Equal(t, exitLimited, e.code, e.String())
	p.reached(t)
	require.Regexp(t, `region \d+`, e.doc.Report.Error)
	require.Contains(t, e.stderr, `"hint":"`)

	e = p.resolve(t, name)
	require.Zero(t, e.code, e.String())
	p.verify(t, name)
}

// It has a store that answers no ping for a minute, and continues its work: "keepalive watchdog timeout" was
// the end of a restore.
// Catalogue: F8.
func TestNoPingsAnsweredForAMinute_TheCallContinues(t *testing.T) {
	t.Parallel()
	const silence = 62 * time.Second
	p := newPlace(t)
	name := p.halfway(t)
	store := p.cluster(name).Stores()[0]
	proxy := listen(t, store.Addr())
	client := tikv.Open(tikv.Config{})
	t.Cleanup(client.Close)
	id := cluster.StoreID(store.ID())
	peers := 0
	count := func(tikv.RegionMeta) error {
		peers++
		return nil
	}
	require.NoError(t, client.RegionMetas(within(t), proxy.addr, count), "the way through the proxy works")
	there := peers
	p.fault(t, fault.Rule{Point: "tikv." + id.String() + ".ReadRegionMeta", Position: fault.Slow, Delay: silence - 2*time.Second})
	proxy.freeze()
	thaw := time.AfterFunc(silence, proxy.thaw)
	require.NoError(t, client.RegionMetas(within(t), proxy.addr, count))
	require.Equal(t, 2*there, peers)
	require.False(t, thaw.Stop(), "it was answered by a store that gives no answer")
	p.reached(t)
}

// proxy passes bytes on to one address, and keeps them back while it is frozen, as a host does that is too busy to
// answer pings: connections stay.
type proxy struct {
	addr string
	mu   sync.RWMutex // held while it is frozen
}

func (p *proxy) freeze() { p.mu.Lock() }
func (p *proxy) thaw()   { p.mu.Unlock() }

func listen(t *testing.T, to string) *proxy {
	t.Helper()
	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String()}
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(ctx, func() {
				_ = near.Close()
				_ = far.Close()
			})
			wg.Go(func() { p.pass(near, far) })
			wg.Go(func() { p.pass(far, near) })
		}
	})
	return p
}

func (p *proxy) pass(from io.Reader, to io.Writer) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.RLock()
		p.mu.RUnlock() //nolint:staticcheck // it only waits for the thaw
		if n > 0 {
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
