package kube

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// checkSecrets rejects a cluster with TLS whose secrets are missing: its pods would stay ContainerCreating. It reads
// only their metadata, and passes if it may not: waiting for the pods then shows the reason. The client's certificate
// must exist and be usable if this program needs it, because no files were given.
func (c *Client) checkSecrets(ctx context.Context, spec map[string]any, target cluster.Name) error {
	client := operator1.ClientSecret(target.Name)
	return c.checkSecretsOf(ctx, operator1.TLSSecrets(spec, target.Name), client, client, target)
}

// checkSecretsOf checks the secrets of these names, and those with the CA and the certificate of the cluster's clients
// if they are among them.
func (c *Client) checkSecretsOf(
	ctx context.Context, names []string, ca, pair string, target cluster.Name,
) error {
	missing, err := c.missingSecrets(ctx, names, target)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return failure.New(failure.Unready, "check tls secrets", target.String(),
			"TLS is on, but these secrets do not exist: %s", strings.Join(missing, ", ")).
			WithHint("issue certificates for %s with the source's CA, a cert-manager Certificate per secret: see "+
				"docs/tls.md", target.Name)
	}
	if c.clientSecret && slices.Contains(names, pair) {
		_, err = c.ClientTLS(ctx, target.Namespace, ca, pair)
	}
	return err
}

// missingSecrets returns the missing secrets, none if they may not be read.
func (c *Client) missingSecrets(ctx context.Context, names []string, target cluster.Name) ([]string, error) {
	var missing []string
	for _, name := range names {
		_, err := c.secrets.Namespace(target.Namespace).Get(ctx, name, metav1.GetOptions{})
		wrapped := kubeerr.Wrap(err, "check tls secret", target.Namespace+"/"+name)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case failure.Is(wrapped, failure.Denied):
			return nil, nil
		case err != nil:
			return nil, wrapped
		}
	}
	return missing, nil
}
