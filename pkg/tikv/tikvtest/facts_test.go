package tikvtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// What real stores did, so that the stand-in does not drift back. The other facts are held beside what they are about.

// TiKV first reports itself with the first tick of its clock, 10 s after its start: PD knows the store and does not call
// it Up.
func TestFacts_NewStore_ReportsItselfOnlyAfterItsFirstTick(t *testing.T) {
	t.Parallel()
	pd, err := pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, pd.Start())
	t.Cleanup(pd.Close)
	lastBeat := func(first time.Duration) func() int64 {
		options := quick
		options.FirstHeartbeat = first
		v := newVolumes()
		s, err := tikvtest.Start(t.Context(), tikvtest.Config{Data: v.data, RaftLog: v.log, PD: pd, Options: options})
		require.NoError(t, err)
		t.Cleanup(s.Kill)
		if first > 0 {
			require.NoError(t, tikvtest.BootstrapCluster(t.Context(), s))
		} else {
			_, err := pd.PutStore(t.Context(), &pdpb.PutStoreRequest{Store: &metapb.Store{Id: s.ID(), Address: s.Addr()}})
			require.NoError(t, err)
		}
		return func() int64 {
			answer, err := pd.GetStore(t.Context(), &pdpb.GetStoreRequest{StoreId: s.ID()})
			require.NoError(t, err)
			require.Equal(t, s.ID(), answer.GetStore().GetId())
			return answer.GetStore().GetLastHeartbeat()
		}
	}
	late, early := lastBeat(time.Hour), lastBeat(0)
	later := time.Now().Add(5 * quick.StoreHeartbeatInterval).UnixNano()
	require.Eventually(t, func() bool { return early() > later }, 30*time.Second, time.Millisecond)
	require.Zero(t, late(), "it is older, and serves its region")
}

// Stores that were all restarted have no leader before raft's election time-out, 10 to 20 s in TiKV.
func TestFacts_AllStoresRestarted_LeaderComesAfterTheElectionTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, s := range c.stores {
		s.Kill()
	}
	c.options.TickInterval = 50 * time.Millisecond
	start := time.Now()
	c.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(c.ctx(30*time.Second), c.stores...))
	require.GreaterOrEqual(t, time.Since(start), 10*c.options.TickInterval)
}

// A region that holds no data has nothing that a flashback would find locked, or not.
func TestFacts_FlashbackOfARegionWithoutData_NeedsNoPreparation(t *testing.T) {
	t.Parallel()
	f := newFlash(t)
	start := f.k.now()
	f.ok(start-1, start, f.k.now())
	f.k.put(key(1), []byte("v"))
	start = f.k.now()
	require.NotNil(t, f.flash(start-1, start, f.k.now()).RegionError.FlashbackNotPrepared)
}

// slowPD keeps a store from joining its cluster.
type slowPD struct {
	*tinyPD
	asked   chan string
	release chan struct{}
}

func (p *slowPD) PutStore(ctx context.Context, req *pdpb.PutStoreRequest) (*pdpb.PutStoreResponse, error) {
	p.asked <- req.GetStore().GetAddress()
	select {
	case <-p.release:
	case <-ctx.Done():
	}
	return p.tinyPD.PutStore(ctx, req)
}

// A store with TLS that restarts hangs up in the handshake, which is no question of certificates.
func TestFacts_StoreWithTLSThatStarts_EndsTheHandshake(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // it has a certificate of 127.0.0.1
	t.Cleanup(certified.Close)
	server := &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())

	pd := &slowPD{tinyPD: newTinyPD(7), asked: make(chan string, 1), release: make(chan struct{})}
	_, err := pd.Bootstrap(t.Context(), &pdpb.BootstrapRequest{Store: &metapb.Store{Id: 1}})
	require.NoError(t, err)
	v := newVolumes()
	started := make(chan error, 1)
	go func() {
		s, err := tikvtest.Start(t.Context(), tikvtest.Config{Data: v.data, RaftLog: v.log, PD: pd, Options: quick, TLS: server})
		if err == nil {
			t.Cleanup(s.Kill)
		}
		started <- err
	}()
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	conn, err := grpc.NewClient(<-pd.asked, grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Regexp(t, "authentication handshake failed: .*(EOF|reset|broken pipe)", err.Error())

	close(pd.release)
	require.NoError(t, <-started)
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err, "the certificates were right")
}

// A region without writes ends its log on each store where it did, after a crash and a start in recovery mode.
func TestFacts_IdleRegion_HasTheSameLogAfterACrash(t *testing.T) {
	t.Parallel()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), faults: &fault.Plan{}, options: quick}
	c.options.TickInterval = time.Second // no election is called meanwhile, however slow the machine is
	c.volumes = []volumes{newVolumes(), newVolumes(), newVolumes()}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(30*time.Second), c.stores...))
	require.NoError(t, tikvtest.SplitAt(c.ctx(30*time.Second), c.stores, key(10)))
	c.settled()
	type end struct{ term, index uint64 }
	before := make([]map[uint64]end, len(c.stores))
	var images [][]*disk.Image
	for i, s := range c.stores {
		before[i] = map[uint64]end{}
		for _, p := range s.Peers() {
			answer, err := debugpb.NewDebugClient(dial(t, s)).RegionInfo(t.Context(), &debugpb.RegionInfoRequest{RegionId: p.Region.Id})
			require.NoError(t, err)
			state := answer.GetRaftLocalState()
			before[i][p.Region.Id] = end{state.GetHardState().GetTerm(), state.GetLastIndex()}
		}
		s.Kill()
	}
	for _, v := range c.volumes {
		images = append(images, disk.Cut(v.data, v.log))
	}
	r := c.restore(images)
	for i, s := range r.stores {
		metas := r.metas(s)
		require.Len(t, metas, 2)
		for _, m := range metas {
			require.Equal(t, before[i][m.RegionId], end{m.LastLogTerm, m.LastIndex})
		}
	}
}
