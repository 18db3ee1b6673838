package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestTLSFiles_Config(t *testing.T) {
	t.Parallel()
	none, err := cluster.TLSFiles{}.Config()
	require.NoError(t, err)
	require.Nil(t, none)
	noPEM := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(noPEM, []byte("hello"), 0o600))
	for name, f := range map[string]cluster.TLSFiles{
		"no CA there":     {CA: "/nowhere/ca.crt"},
		"no certificate":  {CA: noPEM},
		"half a key pair": {Cert: noPEM},
		"only a key":      {Key: noPEM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := f.Config()
			require.Equal(t, failure.Usage, failure.KindOf(err))
		})
	}
}

// A server that wants a client's certificate is reached with the three files, and not without.
func TestTLSFiles_Config_IsUsed(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) //nolint:forbidigo // what a server takes
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	files := cluster.TLSFiles{
		CA: write("ca.crt", "CERTIFICATE", pair.Certificate[0]), Cert: write("tls.crt", "CERTIFICATE", pair.Certificate[0]), Key: write("tls.key", "PRIVATE KEY", key),
	}
	get := func(f cluster.TLSFiles) error {
		cfg, err := f.Config()
		require.NoError(t, err)
		transport := &http.Transport{TLSClientConfig: cfg}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return err
	}
	require.NoError(t, get(files))
	require.Error(t, get(cluster.TLSFiles{CA: files.CA}), "no certificate of its own")
	require.Error(t, get(cluster.TLSFiles{Cert: files.Cert, Key: files.Key}), "an unknown CA")
}
