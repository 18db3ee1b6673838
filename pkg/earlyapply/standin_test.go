package earlyapply_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// startStore starts a stand-in of TiKV that leads its only region.
func startStore(ctx context.Context, t *testing.T, secure *tls.Config, options tikvtest.Options) (*tikvtest.Store, earlyapply.Store) {
	t.Helper()
	pd, err := pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, pd.Start())
	t.Cleanup(pd.Close)
	options.TickInterval = 20 * time.Millisecond
	s, err := tikvtest.Start(ctx, tikvtest.Config{
		Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: pd, Network: tikvtest.NewNetwork(), TLS: secure, Options: options,
	})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	require.NoError(t, tikvtest.BootstrapCluster(ctx, s))
	require.NoError(t, tikvtest.AwaitLeaders(ctx, s))
	return s, earlyapply.Store{ID: cluster.StoreID(s.ID()), Address: s.Addr(), StatusAddress: s.StatusAddr(), StartedAt: time.Now()}
}

// openClient opens tisnap's client.
func openClient(t *testing.T, secure *tls.Config) *tikv.Client {
	t.Helper()
	client := tikv.Open(tikv.Config{TLS: secure})
	t.Cleanup(client.Close)
	return client
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// security.cert-allowed-cn lets everybody read, and one name alone change.
func TestTurnOff_CertificateOfAnotherName_IsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	server, pool := newCertificate(t, "tikv"), x509.NewCertPool()
	pool.AddCert(server.Leaf)
	s, store := startStore(ctx, t, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12},
		tikvtest.Options{AllowedCN: "backup"})
	as := func(name string) *tikv.Client {
		return openClient(t, &tls.Config{Certificates: []tls.Certificate{newCertificate(t, name)}, RootCAs: pool, MinVersion: tls.VersionTLS12})
	}
	stores, other := []earlyapply.Store{store}, as("someone")
	found := earlyapply.Read(ctx, other, stores)
	require.Equal(t, []earlyapply.Setting{{Store: store.ID, Limit: 1024}}, found.On, "reading is for everybody")
	failed := earlyapply.TurnOff(ctx, other, stores, found.On)
	require.Equal(t, []cluster.StoreID{store.ID}, failed.Stores())
	require.Equal(t, failure.Denied, failure.KindOf(failed[store.ID]), "%v", failed[store.ID])
	require.Contains(t, failure.HintOf(failed[store.ID]), "security.cert-allowed-cn")
	limit, _ := s.EarlyApplyLimit()
	require.Equal(t, uint64(1024), limit)
	require.Empty(t, earlyapply.TurnOff(ctx, as("backup"), stores, found.On))
	limit, _ = s.EarlyApplyLimit()
	require.Zero(t, limit)
	done, err := earlyapply.PutBack(ctx, other, stores, found.On)
	require.Empty(t, done)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}

// A store without a status port cannot be read: that must not pass for one that has no such setting.
func TestRead_StoreWithoutStatusPort_IsNotTakenForOneWithoutTheSetting(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	_, store := startStore(ctx, t, nil, tikvtest.Options{NoStatus: true})
	require.Empty(t, store.StatusAddress)
	stores := []earlyapply.Store{store}
	found := earlyapply.Read(ctx, openClient(t, nil), stores)
	require.Equal(t, []cluster.StoreID{store.ID}, found.Failed.Stores())
	require.Equal(t, failure.Unready, failure.KindOf(found.Failed[store.ID]), "%v", found.Failed[store.ID])
	require.Contains(t, failure.HintOf(found.Failed[store.ID]), "status port")
	require.False(t, found.NotApplicable())
}

// TiKV registers the gauge when it is first touched: a store whose leaders never applied early has none.
func TestAwaitAdopted_StoreWithoutTheGauge_AppliesNothingEarly(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	zero := uint64(0)
	s, store := startStore(ctx, t, nil, tikvtest.Options{EarlyApply: &zero})
	client, stores := openClient(t, nil), []earlyapply.Store{store}
	require.Equal(t, []cluster.StoreID{store.ID}, earlyapply.Read(ctx, client, stores).Off)
	require.Empty(t, earlyapply.AwaitAdopted(ctx, client, client, stores, none))
	require.Zero(t, s.EarlyAppliers())
}

// newCertificate signs itself, for a common name and 127.0.0.1.
func newCertificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
