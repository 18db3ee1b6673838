package tikv_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// A store is reached at the address of a map, and has to prove the name by which PD knows it.
func TestClient_ReachFromOutside_ProvesTheOriginalName(t *testing.T) {
	t.Parallel()
	const name = "prod-tikv-0.prod-tikv-peer.tidb.svc"
	cert, roots := certificate(t, name)
	at, _ := serve(t, &script{pending: noneLed}, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	m, err := cluster.ParseAddressMap([]string{name + ":20160=" + at, "other.svc:20160=" + at})
	require.NoError(t, err)
	client := tikv.Open(tikv.Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Reach: reach.New(reach.Config{Map: m}).Dial})
	defer client.Close()
	_, _, err = client.LedRegions(within(t, 5*time.Second), name+":20160")
	require.NoError(t, err)
	_, _, err = client.LedRegions(within(t, 5*time.Second), "other.svc:20160")
	require.Equal(t, failure.Denied, failure.KindOf(err), "a server that cannot prove the name that was asked for: %v", err)
}

// certificate is self-signed, for one DNS name.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
