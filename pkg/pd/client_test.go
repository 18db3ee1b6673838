package pd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// closedPort is an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

func TestOpen_BadAddress_IsUsage(t *testing.T) {
	t.Parallel()
	for _, addresses := range [][]string{nil, {"no-port"}, {"http://host"}} {
		_, err := pd.Open(t.Context(), pd.Config{Addresses: addresses})
		require.True(t, failure.Is(err, failure.Usage), "%v: %v", addresses, err)
	}
}

func TestOpen_Unreachable_IsLimitedAfterAFewTries(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := pd.Open(ctx, pd.Config{Addresses: []string{closedPort(t)}})
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
	require.NoError(t, ctx.Err(), "after a few tries, not when the time of the caller is up")
}

// While PD changes its leader, or has too much to do, it answers by HTTP and pd/client gives up.
func TestOpen_AnswersByHTTPAlone_IsTriedForLonger(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		refusals int // pd/client gives up after 3
		refused  bool
	}{"for a while": {4, false}, "for good": {-1, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := &fault.Plan{}
			s := running(t, pdtest.Config{Faults: faults}, 1)
			require.NoError(t, faults.Add(fault.Rule{Point: "pd.GetMembers", Code: "Unavailable", Times: row.refusals}))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := pd.Open(ctx, pd.Config{Addresses: s.URLs()})
			if row.refused {
				require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
				require.NoError(t, ctx.Err(), "after a few tries, not when the time of the caller is up")
				return
			}
			require.NoError(t, err)
			c.Close()
			require.Empty(t, faults.Unreached())
		})
	}
}

func TestOpen_ContextEnds_StopsOpening(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pd.Open(ctx, pd.Config{Addresses: []string{closedPort(t)}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestOpen_ContextEndsLater_ClientLivesOn(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := pd.Open(ctx, pd.Config{Addresses: s.URLs()})
	require.NoError(t, err)
	defer c.Close()
	cancel()
	_, err = c.Now(t.Context())
	require.NoError(t, err)
	_, err = c.Stores(t.Context())
	require.NoError(t, err)
}

func TestOpen_ClustersDiffer_IsConflict(t *testing.T) {
	t.Parallel()
	a, b := start(t, pdtest.Config{}), start(t, pdtest.Config{})
	_, err := pd.Open(t.Context(), pd.Config{Addresses: append(a.URLs(), b.URLs()...)})
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
}

func TestClient_FirstAddressDead_UsesTheNext(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 2)
	c := open(t, append([]string{closedPort(t)}, s.URLs()...)...)
	list, err := c.Schedulers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.NoError(t, c.PauseScheduler(t.Context(), list[0].Name, time.Minute))
}

func TestClient_TLS_TrustsOnlyTheGivenAuthority(t *testing.T) {
	t.Parallel()
	cert, roots := selfSigned(t)
	s := running(t, pdtest.Config{TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}, 3)
	c, err := pd.Open(t.Context(), pd.Config{Addresses: s.URLs(), TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Now(t.Context())
	require.NoError(t, err)
	stores, err := c.Stores(t.Context())
	require.NoError(t, err)
	require.Len(t, stores, 3)

	_, err = pd.Open(t.Context(), pd.Config{Addresses: s.URLs()})
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	return selfSignedFor(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// selfSignedFor makes a certificate for these names.
func selfSignedFor(t *testing.T, names *x509.Certificate) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: names.IPAddresses, DNSNames: names.DNSNames,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestClient_NotBootstrapped_IsUnready(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	c := open(t, s.URLs()...)
	ctx := t.Context()
	_, storesErr := c.Stores(ctx)
	_, schedulersErr := c.Schedulers(ctx)
	_, regionsErr := c.Regions(ctx, cluster.KeyRange{})
	_, resolvedErr := c.ResolvedTS(ctx)
	for _, err := range []error{storesErr, schedulersErr, regionsErr, resolvedErr} {
		require.True(t, failure.Is(err, failure.Unready), "%v", err)
	}
	// What a restore needs of a new PD works before any store is there.
	require.NoError(t, c.MarkRecovering(ctx))
	require.NoError(t, c.RaiseAllocID(ctx, 5000))
	now, err := c.Now(ctx)
	require.NoError(t, err)
	require.NoError(t, c.RaiseTS(ctx, cluster.MakeTS(now.Time().Add(time.Hour), 0)))
	require.NoError(t, c.SetTTLConfig(ctx, map[string]any{"schedule.leader-schedule-limit": 0}, time.Minute))
	require.Greater(t, s.NextID(), uint64(5000))
}

func TestClient_Stall_EndsWithTheContext(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults}, 2)
	c := open(t, s.URLs()...)
	for point, call := range map[string]func(context.Context) error{
		"pd.PauseScheduler":           func(ctx context.Context) error { return c.PauseScheduler(ctx, "balance-leader-scheduler", time.Minute) },
		"pd.Tso":                      func(ctx context.Context) error { _, err := c.Now(ctx); return err },
		"pd.UpdateServiceGCSafePoint": func(ctx context.Context) error { _, err := c.HoldGC(ctx, "x", 1, time.Minute); return err },
	} {
		t.Run(point, func(t *testing.T) { // one plan of faults
			require.NoError(t, faults.Add(fault.Rule{Point: point, Position: fault.Stall, Times: -1}))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := call(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, point)
			require.Equal(t, failure.Limited.String(), failure.KindOf(err).String())
			faults.Clear()
		})
	}
	require.Empty(t, s.MutatingCalls())
}

// A step's deadline may be hours away: whoever polls asks another time.
func TestRegions_Stall_EndsLongBeforeTheContext(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults}, 2)
	c := open(t, s.URLs()...)
	c.LimitPages(50 * time.Millisecond)
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.ScanRegions", Position: fault.Stall, Times: -1}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Regions(ctx, cluster.KeyRange{})
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.NoError(t, ctx.Err())
}

func TestPauseScheduler_Refused_ChangesNothing(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults}, 2)
	c := open(t, s.URLs()...)
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.PauseScheduler", Code: "429"}))
	err := c.PauseScheduler(t.Context(), "balance-leader-scheduler", time.Minute)
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.Empty(t, s.MutatingCalls())
	require.Empty(t, faults.Unreached())
}

func TestPauseScheduler_AnswerLost_HasHappened(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults}, 2)
	c := open(t, s.URLs()...)
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.PauseScheduler", Position: fault.After, Times: -1}))
	err := c.PauseScheduler(t.Context(), "balance-leader-scheduler", time.Minute)
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.Contains(t, s.MutatingCalls(), "PauseScheduler balance-leader-scheduler")
	list, err := c.Schedulers(t.Context())
	require.NoError(t, err)
	require.True(t, list[1].Paused, "%v", list)
}

func TestRaiseAllocID_AnswerLost_IsNotSentTwice(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults, Members: 3}, 2)
	c := open(t, s.URLs()...)
	ctx := t.Context()
	require.NoError(t, c.MarkRecovering(ctx))
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.RaiseAllocID", Position: fault.After}))
	require.Error(t, c.RaiseAllocID(ctx, 9000))
	require.Equal(t, 1, faults.Calls("pd.RaiseAllocID"))
	require.Equal(t, uint64(9001), s.NextID())
	require.NoError(t, c.RaiseAllocID(ctx, 9000))
	require.Equal(t, 1, faults.Calls("pd.RaiseAllocID"), "the comparison alone was enough")
	require.Greater(t, s.NextID(), uint64(9001))
}

func TestHoldGC_BelowTheLowest_ReturnsIt(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 2)
	c := open(t, s.URLs()...)
	s.SetGCSafePoint(1000)
	lowest, err := c.HoldGC(t.Context(), "tisnap", 500, time.Minute)
	require.NoError(t, err)
	require.Equal(t, cluster.TS(1000), lowest)
	require.NotContains(t, s.ServiceSafePoints(), "tisnap")
	points, gc, err := c.SafePoints(t.Context())
	require.NoError(t, err)
	require.Equal(t, cluster.TS(1000), gc)
	require.Len(t, points, 1)
	require.Greater(t, points[0].ExpiredAt.Year(), 9000)
}

// TestClient_ReachFromOutside_ProvesTheOriginalName reaches members by the addresses of a map: by HTTP and by gRPC, also after the
// members have sent their own names. The certificate holds the names alone.
func TestClient_ReachFromOutside_ProvesTheOriginalName(t *testing.T) {
	t.Parallel()
	const name = "prod-pd.tidb.svc"
	cert, roots := selfSignedFor(t, &x509.Certificate{DNSNames: []string{name}})
	s := running(t, pdtest.Config{Members: 3, Advertise: name, TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}, 3)
	trust := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	m, err := cluster.ParseAddressMap([]string{name + ":2379=" + s.Addrs()[0], name + "=127.0.0.1"})
	require.NoError(t, err)
	c, err := pd.Open(t.Context(), pd.Config{Addresses: []string{name + ":2379"}, TLS: trust, Reach: reach.New(reach.Config{Map: m}).Dial})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Now(t.Context())
	require.NoError(t, err)
	list, err := c.Schedulers(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list)

	other, err := cluster.ParseAddressMap([]string{"other.svc:2379=" + s.Addrs()[0]})
	require.NoError(t, err)
	_, err = pd.Open(t.Context(), pd.Config{Addresses: []string{"other.svc:2379"}, TLS: trust, Reach: reach.New(reach.Config{Map: other}).Dial})
	require.True(t, failure.Is(err, failure.Denied), "a server that cannot prove the name that was asked for: %v", err)
}
