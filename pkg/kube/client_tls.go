package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// caKey is the CA certificate's key in secrets of cert-manager and in TiDB Operator's documentation.
const caKey = "ca.crt"

// ClientTLS returns the client's TLS configuration for PD and the stores, from the cluster's secret
// NAME-cluster-client-secret with the keys ca.crt, tls.crt and tls.key. Errors never contain the secret's contents.
// Kinds: Unready if the secret does not exist or cannot be used, Denied if it may not be read, Limited, Unknown.
func (c *Client) ClientTLS(ctx context.Context, name cluster.Name) (*tls.Config, error) {
	const op = "read client certificate"
	secret, target := operator1.ClientSecret(name.Name), "secret "+name.Namespace+"/"+operator1.ClientSecret(name.Name)
	found, err := c.core.Secrets(name.Namespace).Get(ctx, secret, metav1.GetOptions{})
	wrapped := kubeerr.Wrap(err, op, target)
	switch {
	case apierrors.IsNotFound(err) && failure.Is(wrapped, failure.NotFound):
		return nil, failure.New(failure.Unready, op, target, "the cluster uses TLS, but the secret does not exist").
			WithHint("issue a client certificate into it (docs/tls.md), or use --ca, --cert and --key")
	case apierrors.IsForbidden(err) && failure.Is(wrapped, failure.Denied):
		return nil, failure.New(failure.Denied, op, target, "%w", failure.Remote(err)).
			WithHint("grant get secrets with resourceNames [%s] in namespace %s (manifests/rbac-tls.yaml), or use "+
				"--ca, --cert and --key", secret, name.Namespace)
	case err != nil:
		return nil, wrapped
	}
	cfg, why := clientTLS(found.Data)
	if why != "" {
		return nil, failure.New(failure.Unready, op, target, "%s", why).
			WithHint("reissue the certificate (docs/tls.md), or use --ca, --cert and --key")
	}
	return cfg, nil
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
