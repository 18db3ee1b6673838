package tests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// authority is a CA with one certificate, for servers and clients alike, as the files of a secret.
type authority struct {
	ca, cert, key []byte
	config        *tls.Config // of servers that want a client's certificate, and of a client
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	a := authority{
		ca:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(a.ca))
	a.config = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	return a
}

// client is the secret NAME-cluster-client-secret of a cluster.
func (a authority) client(cluster string) *unstructured.Unstructured {
	return tlsSecret(cluster+"-cluster-client-secret", map[string][]byte{"ca.crt": a.ca, "tls.crt": a.cert, "tls.key": a.key})
}

// keyLine is a line of the private key, which nothing may show.
func (a authority) keyLine() string { return strings.Split(string(a.key), "\n")[1] }

func tlsSecret(name string, data map[string][]byte) *unstructured.Unstructured {
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString(v)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "tidb"}, "data": encoded,
	}}
}

// secureCluster is a testbed with a cluster that takes clients with a certificate alone. The secrets of its pods and of a
// copy's are there; those of clients are not.
func secureCluster(t *testing.T) (*place, authority) {
	t.Helper()
	a := newAuthority(t)
	p := newPlace(t, testbed.Config{TLS: a.config})
	for _, cluster := range []string{"prod", "copy"} {
		for _, component := range []string{"pd", "tikv", "tidb"} {
			require.NoError(t, p.bed.Kube.Put(tlsSecret(cluster+"-"+component+"-cluster-secret", nil)))
		}
	}
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	return p, a
}

// Point 10: without files none are needed: the certificates are in the clusters' own secrets.
func TestClusterWithTLS_CertificateIsThatOfTheSecret(t *testing.T) {
	t.Parallel()
	p, a := secureCluster(t)
	require.NoError(t, p.bed.Kube.Put(a.client("prod")))
	log := filepath.Join(t.TempDir(), "log")
	more := []string{"--storage", whole, "--log-level", "debug", "--log-file", log}
	var shown strings.Builder
	for _, args := range [][]string{
		{"backup", prod.String(), "--name", string(firstBackup)}, {"hold", "status", prod.String()}, {"release", prod.String(), "--yes"},
	} {
		e := p.run(t, append(args, more...)...)
		require.Equal(t, cli.ExitDone, e.code, "%v: %s", args, e.stderr)
		shown.WriteString(e.stdout + e.stderr)
	}
	restore := append([]string{"restore", string(firstBackup), "--to", "tidb/copy"}, more...)
	e := p.refused(t, restore...)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Contains(t, e.line("error: "), "do not exist: copy-cluster-client-secret")

	require.NoError(t, p.bed.Kube.Put(a.client("copy")))
	e = p.run(t, restore...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	shown.WriteString(e.stdout + e.stderr)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NotEmpty(t, text)
	shown.Write(text)
	store := p.storage(t, whole)
	objects, err := store.List(t.Context(), "")
	require.NoError(t, err)
	for _, o := range objects {
		_, _ = shown.Write(get(t, store, o.Key))
	}
	require.NotContains(t, shown.String(), a.keyLine(), "a private key is shown")
}

// A cluster of TiDB Operator 2.x may have the CA and the certificate of its clients in two secrets of any name.
func TestClusterOfOperator2WithTLS_CertificateIsThatOfItsSecrets(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := newPlace(t, testbed.Config{TLS: a.config, Operator: 2})
	for _, name := range []string{"pd-pd", "kv0-tikv", "kv1-tikv", "db-tidb"} {
		require.NoError(t, p.bed.Kube.Put(tlsSecret("prod-"+name+"-cluster-secret", nil)))
	}
	_, err := p.bed.CreateCluster(t.Context(), prod, 2)
	require.NoError(t, err)
	o := p.bed.Kube.Get("clusters", prod.Namespace, prod.Name)
	require.NoError(t, unstructured.SetNestedField(o.Object, map[string]any{
		"ca": map[string]any{"name": "authority"}, "certKeyPair": map[string]any{"name": "tools"},
	}, "spec", "security", "tls", "client"))
	require.NoError(t, p.bed.Kube.Put(o))
	require.NoError(t, p.bed.Kube.Put(tlsSecret("tools", map[string][]byte{"tls.crt": a.cert, "tls.key": a.key})))
	backup := []string{"backup", prod.String(), "--storage", whole}
	e := p.refused(t, backup...)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Contains(t, e.line("error: "), "secret tidb/authority")
	require.NoError(t, p.bed.Kube.Put(tlsSecret("authority", map[string][]byte{"ca.crt": a.ca})))
	e = p.run(t, backup...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.NotContains(t, e.stdout+e.stderr, a.keyLine(), "a private key is shown")
}

// Point 10: what keeps the program from the certificate is found before anything is changed, and files win.
func TestClientSecretCannotBeUsed_IsRefusedAndFilesWin(t *testing.T) {
	t.Parallel()
	p, a := secureCluster(t)
	backup := []string{"backup", prod.String(), "--name", string(firstBackup), "--storage", whole}
	const secret = "secret tidb/prod-cluster-client-secret"

	e := p.refused(t, backup...)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Contains(t, e.line("error: "), secret)
	require.Contains(t, e.line("error: "), "does not exist")
	require.Contains(t, e.line("hint: "), "--ca, --cert and --key")

	require.NoError(t, p.bed.Kube.Put(tlsSecret("prod-cluster-client-secret", map[string][]byte{"ca.crt": a.ca, "tls.crt": a.key, "tls.key": a.key})))
	e = p.refused(t, backup...)
	require.Equal(t, cli.ExitCode(5), e.code, e.stderr)
	require.Contains(t, e.line("error: "), secret+": tls.crt and tls.key are not a certificate and its key")
	require.NotContains(t, e.stderr, a.keyLine())

	p.bed.Kube.Deny("get", "secrets")
	e = p.refused(t, backup...)
	require.Equal(t, cli.ExitCode(7), e.code, e.stderr)
	require.Contains(t, e.line("hint: "), "get secrets with resourceNames [prod-cluster-client-secret] in namespace tidb")

	dir := t.TempDir()
	files := map[string][]byte{"ca": a.ca, "cert": a.cert, "key": a.key}
	for name, body := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), body, 0o600))
		backup = append(backup, "--"+name, filepath.Join(dir, name))
	}
	e = p.run(t, backup...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	// A restore finds out before it changes anything, too.
	restore := []string{"restore", string(firstBackup), "--to", "tidb/copy", "--storage", whole, "--dry-run"}
	e = p.refused(t, restore...)
	require.Equal(t, cli.ExitCode(7), e.code, e.stderr)
	require.Contains(t, e.line("hint: "), "resourceNames [copy-cluster-client-secret]")
}
