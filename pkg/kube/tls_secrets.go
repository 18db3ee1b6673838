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

// checkSecrets refuses a cluster with TLS whose secrets do not exist: its pods would stay ContainerCreating. Only
// their names are read; who may not read them is not refused: the wait for the pods then gives the reason. The client's
// certificate is needed by this program itself, if no files have it: then it has to be there and of use.
func (c *Client) checkSecrets(ctx context.Context, spec map[string]any, target cluster.Name) error {
	names := operator1.TLSSecrets(spec, target.Name)
	missing, err := c.missingSecrets(ctx, names, target)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return failure.New(failure.Unready, "check tls secrets", target.String(),
			"TLS is on, and these secrets do not exist: %s", strings.Join(missing, ", ")).
			WithHint("issue certificates for %s with the source's CA, one Certificate of cert-manager for each "+
				"secret: see docs/tls.md", target.Name)
	}
	if c.clientSecret && slices.Contains(names, operator1.ClientSecret(target.Name)) {
		_, err = c.ClientTLS(ctx, target)
	}
	return err
}

// missingSecrets are those that do not exist; none if the names may not be read.
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
