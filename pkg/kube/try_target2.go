package kube

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/parallel"
)

func (g generation2) dryRun(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, _ bool,
) error {
	made, err := makeTarget2(source, to, volumes)
	if err != nil {
		return err
	}
	if err := g.checkLeftovers(ctx, to); err != nil {
		return err
	}
	all := append(allMade(made), made.Late...)
	err = parallel.Each(ctx, parallelRequests, all,
		func(ctx context.Context, _ int, o *unstructured.Unstructured) error {
			return g.try(ctx, o)
		})
	if err != nil {
		return err
	}
	for _, o := range all {
		spec, _ := o.Object["spec"].(map[string]any)
		if err := g.checkClasses(ctx, spec); err != nil {
			return err
		}
	}
	if err := g.checkSecrets2(ctx, made, to.Name); err != nil {
		return err
	}
	derive, err := g.tryClaims(ctx, made, to.Name)
	if err != nil {
		return err
	}
	if err := checkDrivers(ctx, volumes, derive); err != nil {
		return err
	}
	need, err := g.restoredDemand(ctx, to.Name, volumes)
	if err != nil {
		return err
	}
	addFilled(need, volumes)
	if err := g.checkQuota(ctx, to.Name, need); err != nil {
		return err
	}
	return parallel.Each(ctx, parallelRequests, volumes, func(ctx context.Context, _ int, v RestoredVolume) error {
		_, err := g.tryVolume(ctx, v, derive)
		return err
	})
}

// try makes an object of the Operator as a dry run that ignores no field: the definitions of another version than the
// source's may lack some, which the target then silently would not have, or have other feature gates.
func (g generation2) try(ctx context.Context, o *unstructured.Unstructured) error {
	op, target := "try to create "+o.GetKind(), o.GetNamespace()+"/"+o.GetName()
	options := tried()
	options.FieldValidation = metav1.FieldValidationStrict
	_, err := g.resource(o).Create(ctx, o, options)
	if apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return failure.New(failure.Unready, op, target, "%w", failure.Remote(err)).
			WithHint("install the version of TiDB Operator that the source has, with its CustomResourceDefinitions, "+
				"or change by --patch what the message names, where null removes a field: kind %s, name %s",
				o.GetKind(), o.GetName())
	}
	return unlessThere(err, op, target)
}

// tryClaims makes the claims of a target as dry runs and returns how the PVs for them are derived. A claim without a
// StorageClass gets the default one of this Kubernetes cluster; without any, the Operator cannot keep its pod.
func (g generation2) tryClaims(ctx context.Context, made *operator2.Made, target cluster.Name) (derived, error) {
	const op = "check storage class"
	var claims []*corev1.PersistentVolumeClaim
	for _, s := range made.Stores {
		claims = append(claims, s.Claims...)
	}
	served := make([]*corev1.PersistentVolumeClaim, len(claims))
	err := parallel.Each(ctx, parallelRequests, claims,
		func(ctx context.Context, i int, claim *corev1.PersistentVolumeClaim) (err error) {
			served[i], err = g.tryClaim(ctx, claim)
			return err
		})
	if err != nil {
		return nil, err
	}
	byName := map[string]*corev1.PersistentVolumeClaim{}
	for _, claim := range served {
		if class := claim.Spec.StorageClassName; class == nil || *class == "" {
			return nil, failure.New(failure.Unready, op, target.String(),
				"claim %s has no StorageClass, which TiDB Operator 2.x needs to keep its pod", claim.Name).
				WithHint("make the StorageClass of the target's volumes the default one of this Kubernetes cluster")
		}
		byName[claim.Name] = claim
	}
	return func(
		ctx context.Context, v RestoredVolume,
	) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
		pvc, pv, err := restoredObjects(v)
		if err != nil {
			return nil, nil, err
		}
		claim := byName[pvc.Name]
		if claim == nil {
			return nil, nil, failure.New(failure.Corrupt, op, target.String(), "claim %s is none of the target's",
				pvc.Name)
		}
		return claim, pv, g.fitVolume(ctx, claim, pv, v.Filled)
	}, nil
}

// checkSecrets2 rejects a cluster with TLS whose secrets are missing.
func (g generation2) checkSecrets2(ctx context.Context, made *operator2.Made, target cluster.Name) error {
	names, ca, pair := operator2.TLSSecrets(made)
	return g.checkSecretsOf(ctx, names, ca, pair, target)
}
