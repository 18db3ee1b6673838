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
)

// CreateCluster makes the target in recovery mode. Claims that an earlier cluster of the name left behind
// are a Conflict too: PD would start on the old one's data.
func (c *Client) CreateCluster(ctx context.Context, source json.RawMessage, target cluster.Name, run cluster.RunID) error {
	const op = "create tidbcluster"
	o, err := targetCluster(source, target, run)
	if err != nil {
		return err
	}
	if err := checkSize(o.Object, target.String()); err != nil {
		return err
	}
	api := c.dynamic.Resource(tidbClusterResource()).Namespace(target.Namespace)
	found, err := api.Get(ctx, target.Name, metav1.GetOptions{})
	if err == nil {
		return checkMade(found, run, op, target.String())
	}
	if wrapped := wrap(err, op, target.String()); !failure.Is(wrapped, failure.NotFound) {
		return wrapped
	}
	if err := c.checkLeftovers(ctx, target); err != nil {
		return err
	}
	_, err = api.Create(ctx, o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, op, target.String())
	}
	if found, err = api.Get(ctx, target.Name, metav1.GetOptions{}); err != nil {
		return wrap(err, op, target.String())
	}
	return checkMade(found, run, op, target.String())
}

// checkLeftovers refuses a name whose claims still exist. At this point the run has made none yet.
func (c *Client) checkLeftovers(ctx context.Context, target cluster.Name) error {
	list, err := c.core.CoreV1().PersistentVolumeClaims(target.Namespace).List(ctx, instanceSelector(target))
	if err != nil {
		return wrap(err, "list claims", target.String())
	}
	if len(list.Items) == 0 {
		return nil
	}
	return failure.New(failure.Conflict, "create tidbcluster", target.String(),
		"%d claims of an earlier cluster of this name exist, %s the first", len(list.Items), list.Items[0].Name).
		WithHint("choose another target name, or delete them with `kubectl -n %s delete pvc -l %s=%s`",
			target.Namespace, instanceLabel, target.Name)
}

// targetCluster turns the source's object into the target's. It keeps the spec.
func targetCluster(source json.RawMessage, target cluster.Name, run cluster.RunID) (*unstructured.Unstructured, error) {
	const op = "make tidbcluster"
	o := &unstructured.Unstructured{}
	var content map[string]any
	if err := decodeObject(source, &content); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, target.String())
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return nil, failure.New(failure.Corrupt, op, target.String(), "the source's tidbcluster has no spec")
	}
	if err := checkAlone(spec, target); err != nil {
		return nil, err
	}
	// A cluster that was paused or suspended when it was backed up would never come up.
	delete(spec, "paused")
	delete(spec, "suspendAction")
	spec["recoveryMode"] = true
	failover, taken := withoutFailover(spec)
	was := &unstructured.Unstructured{Object: content}
	o.Object = map[string]any{"spec": spec}
	// br's clustermeta leaves out version and kind.
	o.SetAPIVersion(tidbClusterResource().GroupVersion().String())
	o.SetKind("TidbCluster")
	o.SetName(target.Name)
	o.SetNamespace(target.Namespace)
	o.SetLabels(keptLabels(was.GetLabels(), target))
	annotations := keptAnnotations(was.GetAnnotations())
	if taken {
		annotations[failoverKey] = failover
	}
	o.SetAnnotations(annotations)
	markRun(o, run)
	return o, nil
}

// checkAlone refuses a cluster that joins the PD of another one: its target would join the live source.
func checkAlone(spec map[string]any, target cluster.Name) error {
	other, _ := spec["cluster"].(map[string]any)
	addresses, _ := spec["pdAddresses"].([]any)
	if len(other) == 0 && len(addresses) == 0 {
		return nil
	}
	return failure.New(failure.Usage, "make tidbcluster", target.String(),
		"the source joins another cluster's pd (spec.cluster or spec.pdAddresses), and so would the target").
		WithHint("restore the cluster that the source belongs to as a whole")
}

// keptLabels drops what deployment tools wrote: they would manage the target too, and delete it.
func keptLabels(labels map[string]string, target cluster.Name) map[string]string {
	kept := map[string]string{}
	for k, v := range labels {
		switch {
		case k == RunKey || toolsOwn(k) || (k == "app.kubernetes.io/managed-by" && v == "Helm"):
			continue
		case k == instanceLabel:
			v = target.Name
		}
		kept[k] = v
	}
	return kept
}

// keptAnnotations drops what the source's server, Operator and deployment tools wrote. Delete slots go
// because the target's ordinals begin at 0 again; the mark that volumes are ready because they are not.
func keptAnnotations(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for k, v := range annotations {
		if k == RunKey || k == leftRecoveryKey || k == failoverKey || k == lastAppliedKey || k == volumesReadyKey ||
			strings.HasSuffix(k, deleteSlotsSuffix) || toolsOwn(k) {
			continue
		}
		kept[k] = v
	}
	return kept
}

func toolsOwn(key string) bool {
	for _, prefix := range []string{"argocd.argoproj.io/", "meta.helm.sh/", "helm.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
