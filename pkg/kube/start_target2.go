package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// reclaimKey is on a restored PV, which is retained until its cluster serves: the policy of the source's.
	reclaimKey = "tisnap.io/reclaim-policy"
	// boundKey is written on a claim when its volume is there, so that it is bound at once rather than at the binder's
	// next resync, up to 15 s later.
	boundKey = "tisnap.io/volume"
)

// tikvGrace is how many seconds a TiKV has to end. The Operator's own period is endless, and a deletion without one is
// refused by the policy that it installs.
const tikvGrace = int64(30)

// bindVolume makes the PV of a filled claim, which can be bound later. Otherwise it does nothing: a store starts as
// soon as its volumes can be bound, which is up to startTiKV.
func (g generation2) bindVolume(ctx context.Context, v RestoredVolume) error {
	if v.Filled == nil {
		return nil
	}
	_, _, err := g.makeVolume(ctx, v)
	return failure.Annotate(err, "bind volume", string(v.Volume))
}

// startTiKV creates the PVs that the claims name.
func (g generation2) startTiKV(ctx context.Context, name cluster.Name, volumes []RestoredVolume) error {
	return parallel.Each(ctx, parallelRequests, volumes, func(ctx context.Context, _ int, v RestoredVolume) error {
		return failure.Annotate(g.startVolume(ctx, v), "start tikv", name.String())
	})
}

// makeVolume creates the PV of a volume, and returns it with the claim that it is for.
func (g generation2) makeVolume(
	ctx context.Context, v RestoredVolume,
) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim, error) {
	pvc, pv, err := restoredObjects(v)
	if err != nil {
		return nil, nil, err
	}
	claim, err := g.core.PersistentVolumeClaims(pvc.Namespace).Get(ctx, pvc.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, kubeerr.Wrap(err, bindClaim, pvc.Namespace+"/"+pvc.Name)
	}
	if err := g.fitVolume(ctx, claim, pv, v.Filled); err != nil {
		return nil, nil, err
	}
	var source corev1.PersistentVolume
	if err := json.Unmarshal(v.Object, &source); err != nil {
		return nil, nil, failure.Wrap(err, failure.Corrupt, "make persistent volume", pv.Name)
	}
	pv.Annotations[reclaimKey] = string(source.Spec.PersistentVolumeReclaimPolicy)
	made, err := g.ensureVolume(ctx, pv, v)
	return made, claim, err
}

const bindClaim = "bind claim"

func (g generation2) startVolume(ctx context.Context, v RestoredVolume) error {
	made, claim, err := g.makeVolume(ctx, v)
	if err == nil && v.Filled != nil {
		made, err = g.BlockVolumes().Free(ctx, made)
	}
	if err != nil {
		return err
	}
	api, name := g.core.PersistentVolumeClaims(claim.Namespace), claim.Name
	target := claim.Namespace + "/" + name
	if err := g.awaitAvailable(ctx, made); err != nil { // what is written before that does not help the claim
		return err
	}
	err = untilWritten(ctx, bindClaim, target, func() error {
		if claim, err = api.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := runmark.CheckMade(claim, v.Run, bindClaim, target); err != nil {
			return err
		}
		if claim.Annotations[boundKey] == string(v.Volume) {
			return nil
		}
		claim.Annotations[boundKey] = string(v.Volume)
		claim, err = api.Update(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return g.freeVolume(ctx, made, claim)
}

// fitVolume gives a PV the class that its claim has, by the template of its group or as the default of this Kubernetes
// cluster. The source's volume may have another one, if the Operator has modified it since, and is then never bound.
func (g generation2) fitVolume(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, filled *FilledClaim,
) error {
	pv.Spec.StorageClassName = ""
	if class := claim.Spec.StorageClassName; class != nil {
		pv.Spec.StorageClassName = *class
	}
	pv.Spec.VolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
	return g.setDriver(ctx, claim, pv, filled)
}

// leaveRecovery notes that recovery mode is left, and restarts TiKV as restartTiKV does.
func (g generation2) leaveRecovery(ctx context.Context, name cluster.Name) error {
	grace := tikvGrace
	return g.restartTiKV(ctx, name, operator2.TiKVOf(name.Name), &grace, func(uids []string) ([]string, error) {
		err := g.update(ctx, name, leaveRecovery, func(o *unstructured.Unstructured) (changed bool) {
			uids, changed = operator2.LeaveRecovery(o, uids)
			return changed
		})
		return uids, err
	})
}

// startTiDB creates the groups that come last, and gives the restored PVs the policies of the source's.
func (g generation2) startTiDB(ctx context.Context, name cluster.Name) error {
	o, err := g.existing(ctx, name)
	if err != nil {
		return err
	}
	late, err := operator2.Late(o)
	if err != nil {
		return err
	}
	run := cluster.RunID(o.GetAnnotations()[runmark.Key])
	for _, group := range late {
		if _, err := g.ensure(ctx, group, run); err != nil {
			return err
		}
	}
	if err := g.resetPolicies(ctx, name, run); err != nil {
		return err
	}
	return g.update(ctx, name, "start tidb", operator2.ForgetLate)
}

// resetPolicies gives the PVs that the run has restored for the cluster the policies of the source's.
func (g generation2) resetPolicies(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	list, err := g.core.PersistentVolumes().List(ctx, runmark.Selector(run))
	if err != nil {
		return kubeerr.Wrap(err, "list persistent volumes", name.String())
	}
	return parallel.Each(ctx, parallelRequests, list.Items,
		func(ctx context.Context, _ int, pv corev1.PersistentVolume) error {
			policy := pv.Annotations[reclaimKey]
			if policy == "" || !runmark.MadeBy(&pv, run) {
				return nil
			}
			_, err := g.setPolicy(ctx, &pv, corev1.PersistentVolumeReclaimPolicy(policy), run)
			return err
		})
}

func (g generation2) tidbPods(ctx context.Context, name cluster.Name) ([]string, error) {
	return g.tidbPodsOf(ctx, name, operator2.ComponentOf(name.Name, "tidb"))
}

func (g generation2) waiting(ctx context.Context, name cluster.Name) ([]string, error) {
	o, err := g.existing(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := g.core.Pods(name.Namespace).List(ctx, operator2.Of(name.Name))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list pods", name.String())
	}
	warned := podreason.Warned(ctx, g.core, name.Namespace)
	order := []string{"pd", "tikv"}
	if late, err := operator2.Late(o); err == nil && len(late) == 0 {
		order = append(order, "tidb")
	}
	for _, component := range order {
		pods := slices.DeleteFunc(slices.Clone(list.Items),
			func(p corev1.Pod) bool { return operator2.Component(p.Labels) != component })
		if reasons := podreason.All(pods, warned); len(reasons) > 0 {
			return reasons, nil
		}
		if len(pods) == 0 && component != "tidb" {
			return []string{fmt.Sprintf("no %s pod has been created: check that TiDB Operator runs, and see its log",
				component)}, nil
		}
	}
	return nil, nil
}

func (g generation2) crashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error) {
	found, err := g.crashLoopsOf(ctx, name, restarts, operator2.TiKVOf(name.Name))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	instances, err := g.list(ctx, operator2.TiKVs, name.Namespace, operator2.TiKVOf(name.Name))
	if err != nil {
		return nil, err
	}
	ordinals := operator2.Ordinals(instances)
	for i := range found {
		ordinal, known := ordinals[found[i].Pod]
		if found[i].Ordinal = ordinal; !known {
			found[i].Ordinal = -1
		}
	}
	return found, nil
}

func (generation2) belongs(o *unstructured.Unstructured) metav1.ListOptions {
	return operator2.Of(o.GetName())
}

func (generation2) claimedFor(o *unstructured.Unstructured, claim *corev1.PersistentVolumeClaim) bool {
	made, since := claim.GetCreationTimestamp(), o.GetCreationTimestamp()
	return operator2.IsOf(o.GetName(), claim.Labels) && !made.Before(&since)
}

func (generation2) serves(o *unstructured.Unstructured) string { return operator2.Serves(o) }

func (generation2) runsTiDB(o *unstructured.Unstructured) string { return operator2.RunsTiDB(o) }

func (generation2) mayUse(o *unstructured.Unstructured) string {
	return "cluster " + o.GetName() + ", not created by the run, may use the volumes"
}
