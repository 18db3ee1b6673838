package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/tisnap/tisnap/pkg/failure"
)

// TLSFiles are the PEM files of a TLS client, as in the flags --ca, --cert and --key.
type TLSFiles struct {
	CA, Cert, Key string
}

// Config reads the files; nil without any, for no TLS. An unusable file, or a certificate or key without the other, is
// a Usage error.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil // no TLS is a choice, not an error
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, "read --ca", f.CA)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, failure.Wrap(errors.New("no certificate in it"), failure.Usage, "read --ca", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, "read --cert and --key", f.Cert)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
