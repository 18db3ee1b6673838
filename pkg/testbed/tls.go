package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// TLS is what Config.TLS takes for PD and TiKV that serve nothing but TLS, and only to clients with a certificate of the same
// authority, and the files of one.
type TLS struct {
	Config *tls.Config
	Client cluster.TLSFiles // what a client names by --ca, --cert and --key
}

// NewTLS makes an authority, and the files of a client below dir. The certificates are good for a day.
func NewTLS(dir string) (*TLS, error) {
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "testbed"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := issue(authority, nil)
	if err != nil {
		return nil, err
	}
	server, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // it is the testbed's own client, too
	}, root)
	if err != nil {
		return nil, err
	}
	client, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, root)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root.Leaf)
	t := &TLS{
		Config: &tls.Config{
			Certificates: []tls.Certificate{*server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, RootCAs: pool,
			MinVersion: tls.VersionTLS12,
		},
		Client: cluster.TLSFiles{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")},
	}
	return t, t.write(root, client)
}

// issue signs a certificate, with its own key if there is no issuer.
func issue(template *x509.Certificate, by *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func (t *TLS) write(root, client *tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	for path, block := range map[string]*pem.Block{
		t.Client.CA:   {Type: "CERTIFICATE", Bytes: root.Certificate[0]},
		t.Client.Cert: {Type: "CERTIFICATE", Bytes: client.Certificate[0]},
		t.Client.Key:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
