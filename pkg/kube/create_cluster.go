package kube

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// createCluster creates the target in recovery mode. Claims left by an earlier cluster of the same name are a Conflict
// too: PD would start on that cluster's data.
func (c generation1) createCluster(ctx context.Context, source json.RawMessage, to Target, _ []RestoredVolume) error {
	const op = "create tidbcluster"
	made, err := operator1.Make(source, to)
	if err != nil {
		return err
	}
	o, target, run := made.Object, to.Name, to.Run
	if err := checkSize(o.Object, target.String()); err != nil {
		return err
	}
	api := c.dynamic.Resource(operator1.Resource()).Namespace(target.Namespace)
	found, err := api.Get(ctx, target.Name, metav1.GetOptions{})
	if err == nil {
		return runmark.CheckMade(found, run, op, target.String())
	}
	if wrapped := kubeerr.Wrap(err, op, target.String()); !failure.Is(wrapped, failure.NotFound) {
		return wrapped
	}
	if err := c.checkLeftovers(ctx, target); err != nil {
		return err
	}
	_, err = create(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return api.Create(ctx, o, metav1.CreateOptions{})
	})
	if !apierrors.IsAlreadyExists(err) {
		return kubeerr.Wrap(err, op, target.String())
	}
	if found, err = api.Get(ctx, target.Name, metav1.GetOptions{}); err != nil {
		return kubeerr.Wrap(err, op, target.String())
	}
	return runmark.CheckMade(found, run, op, target.String())
}

// checkLeftovers rejects a name that still has claims. The run itself has not made any yet.
func (c *Client) checkLeftovers(ctx context.Context, target cluster.Name) error {
	list, err := c.claimsOf(ctx, target)
	if err != nil || len(list) == 0 {
		return err
	}
	names := claimNames(list)
	return failure.New(failure.Conflict, "create tidbcluster", target.String(),
		"%d claims of an earlier cluster of this name exist, the first is %s", len(names), names[0]).
		WithHint("choose another target name, or delete them: kubectl -n %s delete pvc %s", target.Namespace,
			strings.Join(names, " "))
}
