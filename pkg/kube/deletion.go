package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// deletion removes a target of a run, in as many tries as it takes.
type deletion struct {
	*Client
	name cluster.Name
	run  cluster.RunID
	// target is the TidbCluster that was found, nil if it was gone before the first try: then objects not marked with
	// the run may be someone else's with the same name, and are kept.
	target *unstructured.Unstructured
}

// deleteRest deletes what remains after the TidbCluster. Each call gets as far as it can: it is Limited while something
// that must go first is still there, and the caller tries again.
func (d *deletion) deleteRest(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.clusterGone, d.deleteSets, d.podsGone, d.claimForRun,
		func(ctx context.Context) error { return d.deleteRemains(ctx, d.name, d.run) },
		d.remainsGone,
		d.deleteSets, // recreated by an Operator sync that was in progress when the TidbCluster went
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clusterGone waits for the TidbCluster's finalizers: while it exists, the Operator recreates its StatefulSets.
func (d *deletion) clusterGone(ctx context.Context) error {
	found, err := d.getCluster(ctx, d.name)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	case d.target != nil && found.GetUID() != d.target.GetUID():
		return runmark.CheckMade(found, "", "delete tidbcluster", d.name.String()) // it was recreated
	}
	return d.still("TidbCluster", []string{d.name.Name})
}

// deleteSets deletes the target's StatefulSets, pods first, unless the garbage collector was faster.
func (d *deletion) deleteSets(ctx context.Context) error {
	api := d.core.StatefulSets(d.name.Namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "list statefulsets", d.name.String())
	}
	if d.target == nil { // only the name identifies them: spare those of a cluster created since
		if err := d.clusterGone(ctx); err != nil {
			return err
		}
	}
	own := slices.DeleteFunc(list.Items, func(s appsv1.StatefulSet) bool { return !d.owns(&s) })
	foreground := metav1.DeletePropagationForeground
	err = parallel.Each(ctx, parallelRequests, own, func(ctx context.Context, _ int, s appsv1.StatefulSet) error {
		if s.DeletionTimestamp != nil {
			return nil
		}
		this := onlyThis(s.UID)
		this.PropagationPolicy = &foreground
		err := api.Delete(ctx, s.Name, this)
		if apierrors.IsConflict(err) { // another one of the same name: the next try checks its owner
			return nil
		}
		return gone("delete statefulset", s.Namespace+"/"+s.Name, err)
	})
	if err != nil {
		return err
	}
	return d.still("statefulset", names(own))
}

// owns reports whether the target's TidbCluster owns the object. If it was already gone, any owner of its name counts.
func (d *deletion) owns(o metav1.Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == "TidbCluster" && owner.Name == d.name.Name &&
		(d.target == nil || owner.UID == d.target.GetUID())
}

// podsGone waits for the pods of the target's StatefulSets, which use its claims.
func (d *deletion) podsGone(ctx context.Context) error {
	list, err := d.core.Pods(d.name.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "list pods", d.name.String())
	}
	set := operator1.StatefulSets(d.name.Name)
	return d.still("pod", names(slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != "StatefulSet" || !set.MatchString(owner.Name)
	})))
}

// unmarked lists the target's claims that are not marked with the run: those of its instance, named as by one of its
// StatefulSets, and not older than it.
func (d *deletion) unmarked(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	if d.target == nil {
		return nil, nil
	}
	list, err := d.core.PersistentVolumeClaims(d.name.Namespace).
		List(ctx, operator1.InstanceSelector(operator1.Instance(d.target)))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", d.name.String())
	}
	return slices.DeleteFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool {
		return runmark.MadeBy(&claim, d.run) || !generation1{}.claimedFor(d.target, &claim)
	}), nil
}

func (generation1) claimedFor(tc *unstructured.Unstructured, claim *corev1.PersistentVolumeClaim) bool {
	made, since := claim.GetCreationTimestamp(), tc.GetCreationTimestamp()
	return claim.Labels[operator1.InstanceLabel] == operator1.Instance(tc) && !made.Before(&since) &&
		operator1.MadeForPod(tc.GetName()).MatchString(claim.Name)
}

// remainsGone waits until no claim or PV is marked with the run, apart from those that were filled.
func (d *deletion) remainsGone(ctx context.Context) error {
	list, err := d.core.PersistentVolumeClaims(d.name.Namespace).List(ctx, runmark.Selector(d.run))
	if err != nil {
		return kubeerr.Wrap(err, "list claims", d.name.String())
	}
	err = d.still("claim",
		names(
			slices.DeleteFunc(list.Items,
				func(p corev1.PersistentVolumeClaim) bool {
					return !runmark.MadeBy(&p, d.run) || blockvolume.IsAsked(&p)
				})))
	if err != nil {
		return err
	}
	volumes, err := d.core.PersistentVolumes().List(ctx, runmark.Selector(d.run))
	if err != nil {
		return kubeerr.Wrap(err, "list persistent volumes", d.name.String())
	}
	var left []string
	for i := range volumes.Items {
		if pv := &volumes.Items[i]; d.made(pv) && !blockvolume.IsFilled(pv) {
			left = append(left, fmt.Sprintf("%s (%s)", pv.Name, volumeOf(pv)))
		}
	}
	return d.still("persistent volume", left)
}

// made reports whether a PV is marked with the run and reserved for a claim in the target's namespace.
func (d *deletion) made(pv *corev1.PersistentVolume) bool {
	return runmark.MadeBy(pv, d.run) && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == d.name.Namespace
}

// still returns the error about objects that must be gone before the next step.
func (d *deletion) still(kind string, left []string) error {
	if len(left) == 0 {
		return nil
	}
	const shown = 5
	slices.Sort(left)
	text := strings.Join(left[:min(shown, len(left))], ", ")
	if more := len(left) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return failure.New(failure.Limited, "delete cluster", d.name.String(), "still there: %s %s", kind, text).
		WithHint("find out what blocks its deletion: kubectl -n %s describe %s; then run it again", d.name.Namespace,
			strings.ReplaceAll(strings.ToLower(kind), " ", ""))
}

func names[T any, P interface {
	*T
	metav1.Object
}](list []T) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = P(&list[i]).GetName()
	}
	return out
}
