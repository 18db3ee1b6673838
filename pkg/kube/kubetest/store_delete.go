package kubetest

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// remove deletes an object and, unless the caller orphans them, everything that it owns. A Job that is deleted in the
// foreground waits for its pods. Pods go at once, unless their Job counts them: the kubelet is part of the Operator stand-in,
// which sees them vanish.
func (s *store) remove(r resource, namespace, name string, opts metav1.DeleteOptions) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := objectKey{namespace, name}
	old, exists := s.objects[r.name][key]
	if !exists {
		return nil, apierrors.NewNotFound(r.groupResource(), name)
	}
	m := meta(old)
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != m.GetUID() {
			return nil, apierrors.NewConflict(r.groupResource(), name, fmt.Errorf(
				"Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, m.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
			return nil, apierrors.NewConflict(r.groupResource(), name, fmt.Errorf(
				"Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
				*p.ResourceVersion, m.GetResourceVersion()))
		}
	}
	if len(opts.DryRun) > 0 {
		return clone(old), nil
	}
	if s.held(r, old) {
		return s.markDeleted(r.name, key, old), nil
	}
	if p := opts.PropagationPolicy; r.name == jobs && p != nil && *p == metav1.DeletePropagationForeground {
		if s.dropOwned(m.GetUID()); s.owns(m.GetUID()) {
			waits := clone(old)
			meta(waits).SetFinalizers([]string{metav1.FinalizerDeleteDependents})
			return s.markDeleted(r.name, key, waits), nil
		}
	}
	leaves := s.leaves(r, opts.PropagationPolicy)
	if leaves && r.name == tidbClusters {
		s.gone[m.GetUID()] = true
	}
	s.drop(r.name, key, leaves)
	if r.name == namespaces {
		s.dropNamespace(name)
	}
	return clone(old), nil
}

// removed reports whether a namespace was deleted, and not made again.
func (s *store) removed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emptied[name] && s.objects[namespaces][objectKey{"", name}] == nil
}

// held reports whether a deleted object stays. Finalizers hold a PV, a claim, Operator 2.x's objects, and a pod that its Job
// has not counted; Kubernetes' own protection holds a PV only while it is bound, and a claim while a pod on a node names it,
// also one that has ended. The caller holds the lock.
func (s *store) held(r resource, o object) bool {
	finalizers := meta(o).GetFinalizers()
	switch r.name {
	case volumes:
		bound := nestedText(o, "status", "phase") == string(corev1.VolumeBound)
		return slices.ContainsFunc(finalizers, func(f string) bool { return f != pvProtection || bound })
	case claims:
		return slices.ContainsFunc(finalizers, func(f string) bool {
			return f != claimProtection || s.claimInUse(meta(o).GetNamespace(), meta(o).GetName())
		})
	case pods:
		return slices.Contains(finalizers, batchv1.JobTrackingFinalizer)
	}
	return r.group == coreGroup && len(finalizers) > 0
}

// claimInUse reports whether a pod on a node names the claim.
func (s *store) claimInUse(namespace, name string) bool {
	for key, o := range s.objects[pods] {
		if key.namespace != namespace || nestedText(o, "spec", "nodeName") == "" {
			continue
		}
		list, _, _ := unstructured.NestedSlice(o, "spec", "volumes")
		for _, v := range list {
			if of, ok := v.(object); ok && nestedText(of, "persistentVolumeClaim", "claimName") == name {
				return true
			}
		}
	}
	return false
}

// leaves reports whether what the object owns stays when it goes.
func (s *store) leaves(r resource, policy *metav1.DeletionPropagation) bool {
	switch {
	case policy == nil, *policy == metav1.DeletePropagationBackground:
		return s.collected && r.name == tidbClusters
	}
	return *policy == metav1.DeletePropagationOrphan
}

// collectLater leaves to the caller what TidbClusters own when they go.
func (s *store) collectLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collected = true
}

// operated reports whether an Operator is there, with the controllers below it.
func (s *store) operated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collected
}

// collect drops what the object of that UID owned.
func (s *store) collect(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gone, uid)
	s.dropOwned(uid)
}

// collectUnless collects for all TidbClusters that are gone but those.
func (s *store) collectUnless(known map[types.UID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.gone {
		if !known[uid] {
			delete(s.gone, uid)
			s.dropOwned(uid)
		}
	}
}

// markDeleted notes that an object is to go once its finalizers are gone. The caller holds the lock.
func (s *store) markDeleted(res string, key objectKey, old object) object {
	if meta(old).GetDeletionTimestamp() != nil {
		return clone(old)
	}
	now := metav1.NewTime(s.clock.Now().UTC())
	marked := clone(old)
	meta(marked).SetDeletionTimestamp(&now)
	s.put(res, key, marked, old)
	return clone(marked)
}

// drop removes an object and its dependents. The caller holds the lock.
func (s *store) drop(res string, key objectKey, orphan bool) {
	old, exists := s.objects[res][key]
	if !exists {
		return
	}
	if s.held(resourceNamed(res), old) {
		s.markDeleted(res, key, old)
		return
	}
	delete(s.objects[res], key)
	s.version++
	last := clone(old)
	meta(last).SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.notify(change{version: s.version, resource: res, action: "DELETED", object: last, old: old})
	if res == pods {
		s.dropUnused(key.namespace)
	}
	if orphan {
		return
	}
	s.dropOwned(meta(old).GetUID())
	for _, ref := range meta(old).GetOwnerReferences() {
		owner := objectKey{key.namespace, ref.Name}
		job, exists := s.objects[jobs][owner]
		waits := exists && meta(job).GetUID() == ref.UID && slices.Contains(meta(job).GetFinalizers(), metav1.FinalizerDeleteDependents)
		if waits && !s.owns(ref.UID) {
			s.drop(jobs, owner, false)
		}
	}
}

// dropUnused removes the claims of a namespace that were deleted, and that no pod holds any more.
func (s *store) dropUnused(namespace string) {
	for key, o := range s.objects[claims] {
		if key.namespace == namespace && meta(o).GetDeletionTimestamp() != nil && !s.held(resourceNamed(claims), o) {
			s.drop(claims, key, false)
		}
	}
}

// owns reports whether there is something that the object of that UID owns. The caller holds the lock.
func (s *store) owns(uid types.UID) bool {
	for _, byKey := range s.objects {
		for _, o := range byKey {
			if slices.ContainsFunc(meta(o).GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid }) {
				return true
			}
		}
	}
	return false
}

func (s *store) dropOwned(uid types.UID) {
	for kind, byKey := range s.objects {
		for dependent, o := range byKey {
			for _, ref := range meta(o).GetOwnerReferences() {
				if ref.UID == uid {
					s.drop(kind, dependent, false)
				}
			}
		}
	}
}

func (s *store) dropNamespace(name string) {
	s.emptied[name] = true
	for kind, byKey := range s.objects {
		for key := range byKey {
			if key.namespace == name {
				s.drop(kind, key, false)
			}
		}
	}
}
