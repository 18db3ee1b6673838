package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// caKey is the CA certificate's key in secrets of cert-manager and in TiDB Operator's documentation.
const caKey = "ca.crt"

// ClientTLS returns the client's TLS configuration for PD and the stores, from a cluster's secrets: ca.crt of one,
// tls.crt and tls.key of the other, which may be the same. Errors never contain a secret's contents. Kinds: Unready if
// a secret does not exist or cannot be used, Denied if it may not be read, Limited, Unknown.
func (c *Client) ClientTLS(ctx context.Context, namespace, ca, pair string) (*tls.Config, error) {
	data, err := c.clientSecretData(ctx, namespace, pair)
	if err != nil {
		return nil, err
	}
	if ca != pair {
		authority, err := c.clientSecretData(ctx, namespace, ca)
		if err != nil {
			return nil, err
		}
		data[caKey] = authority[caKey]
	}
	cfg, why := clientTLS(data)
	if why != "" {
		names := pair
		if ca != pair {
			names += ", with the CA of " + ca
		}
		return nil, failure.New(failure.Unready, readClientSecret, "secret "+namespace+"/"+names, "%s", why).
			WithHint("reissue the certificate (docs/tls.md), or use --ca, --cert and --key")
	}
	return cfg, nil
}

const readClientSecret = "read client certificate"

// clientSecretData returns a copy of what a secret of the cluster's clients holds.
func (c *Client) clientSecretData(ctx context.Context, namespace, secret string) (map[string][]byte, error) {
	target := "secret " + namespace + "/" + secret
	found, err := c.core.Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
	wrapped := kubeerr.Wrap(err, readClientSecret, target)
	switch {
	case apierrors.IsNotFound(err) && failure.Is(wrapped, failure.NotFound):
		return nil, failure.New(failure.Unready, readClientSecret, target,
			"the cluster uses TLS, but the secret does not exist").
			WithHint("issue a client certificate into it (docs/tls.md), or use --ca, --cert and --key")
	case apierrors.IsForbidden(err) && failure.Is(wrapped, failure.Denied):
		return nil, failure.New(failure.Denied, readClientSecret, target, "%w", failure.Remote(err)).
			WithHint("grant get secrets with resourceNames [%s] in namespace %s (manifests/rbac-tls.yaml), or use "+
				"--ca, --cert and --key", secret, namespace)
	case err != nil:
		return nil, wrapped
	}
	data := map[string][]byte{}
	maps.Copy(data, found.Data)
	return data, nil
}

// clientTLS reads the keys of a secret, or returns why it cannot. It never passes on a parser's error, which may quote
// its input.
func clientTLS(data map[string][]byte) (cfg *tls.Config, why string) {
	for _, key := range []string{caKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(data[key]) == 0 {
			return nil, "it has no " + key
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caKey]) {
		return nil, caKey + " has no certificate in PEM"
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, "tls.crt and tls.key are not a certificate and its key in PEM"
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, ""
}
