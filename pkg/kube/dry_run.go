package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// dryRun makes everything that CreateCluster and BindVolume will create as server-side dry runs, so that quotas,
// policies, webhooks and the namespace are checked before anything exists. It finds claims left by an earlier cluster,
// missing StorageClasses and TLS secrets, and quotas too small for the total. exists means that the cluster was created
// by others.
func (c generation1) dryRun(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
) error {
	made, err := operator1.Make(source, to)
	if err != nil {
		return err
	}
	if !exists {
		if err := c.checkLeftovers(ctx, to.Name); err != nil {
			return err
		}
		_, err := c.dynamic.Resource(operator1.Resource()).Namespace(to.Name.Namespace).
			Create(ctx, made.Object, tried())
		if err := unlessThere(err, "try to create tidbcluster", to.Name.String()); err != nil {
			return err
		}
	}
	spec, _ := made.Object.Object["spec"].(map[string]any)
	if err := c.checkClasses(ctx, spec); err != nil {
		return err
	}
	if err := c.checkSecrets(ctx, spec, to.Name); err != nil {
		return err
	}
	if err := checkDrivers(ctx, volumes, c.restoredFor); err != nil {
		return err
	}
	if err := c.tryQuota(ctx, made, to.Name, volumes, exists); err != nil {
		return err
	}
	return parallel.Each(ctx, parallelRequests, volumes, func(ctx context.Context, _ int, v RestoredVolume) error {
		pvc, err := c.tryVolume(ctx, v, c.restoredFor)
		if err != nil {
			return err
		}
		_, err = c.tryClaim(ctx, pvc)
		return err
	})
}

// tryVolume makes a PV as a dry run and returns its claim.
func (c *Client) tryVolume(
	ctx context.Context, v RestoredVolume, derive derived,
) (*corev1.PersistentVolumeClaim, error) {
	v.Volume = anyVolume
	pvc, pv, err := derive(ctx, v)
	if err != nil {
		return nil, err
	}
	_, err = c.core.PersistentVolumes().Create(ctx, pv, tried())
	return pvc, unlessThere(err, "try to create persistent volume", pv.Name)
}

// tryClaim makes a claim as a dry run and returns it as the API server would have it, or has it already.
func (c *Client) tryClaim(
	ctx context.Context, pvc *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	api := c.core.PersistentVolumeClaims(pvc.Namespace)
	made, err := api.Create(ctx, pvc, tried())
	if apierrors.IsAlreadyExists(err) {
		made, err = api.Get(ctx, pvc.Name, metav1.GetOptions{})
	}
	return made, kubeerr.Wrap(err, "try to create claim", pvc.Namespace+"/"+pvc.Name)
}

// tried makes a creation a dry run.
func tried() metav1.CreateOptions { return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}} }

// unlessThere ignores existing objects: the methods that create them check whose they are.
func unlessThere(err error, op, target string) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return kubeerr.Wrap(err, op, target)
}

// checkClasses rejects a spec with missing StorageClasses: PD's claims would stay Pending forever.
func (c *Client) checkClasses(ctx context.Context, spec map[string]any) error {
	classes := map[string]string{}
	findClasses(spec, "spec", classes)
	return parallel.Each(ctx, parallelRequests, slices.Sorted(maps.Keys(classes)),
		func(ctx context.Context, _ int, name string) error {
			_, err := c.core.StorageClasses().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return failure.New(failure.Unready, "check storage class", name, "it does not exist, but %s names it",
					classes[name]).
					WithHint("create the StorageClass %s in this Kubernetes cluster", name)
			}
			return kubeerr.Wrap(err, "check storage class", name)
		})
}

// findClasses collects the StorageClasses of a spec, each with the path of one field that names it.
func findClasses(value any, path string, into map[string]string) {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			findClasses(item, fmt.Sprintf("%s[%d]", path, i), into)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if name, ok := v[key].(string); ok && name != "" && key == "storageClassName" {
				into[name] = path + "." + key
				continue
			}
			findClasses(v[key], strings.TrimSuffix(path, ".")+"."+key, into)
		}
	}
}
