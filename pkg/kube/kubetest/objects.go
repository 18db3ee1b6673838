package kubetest

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// state is what controllers read and write: the stand-in's store, or a real API server.
type state interface {
	// get and list return copies; list returns their version, too.
	get(res, namespace, name string) (object, bool)
	list(res, namespace string) ([]object, int64)
	// peek and peekAll return the stored objects themselves, which may only be read.
	peek(res, namespace, name string) (object, bool)
	peekAll(res, namespace string) []object
	decodings() *decodings
	create(r resource, o object, dryRun bool) (object, error)
	update(r resource, o object, how write) (object, error)
	remove(r resource, namespace, name string, opts metav1.DeleteOptions) (object, error)
	// next is closed at the next change of any object.
	next() <-chan struct{}
}

// Objects are those of a Kubernetes cluster, as the controllers of this process see and change them.
type Objects struct {
	state state
	// controlled reports that there are controllers and a scheduler besides: they make pods and claims, put pods on nodes, bind
	// volumes and collect what no longer has an owner.
	controlled bool
	log        func(namespace, pod, current, previous string) // keeps what a pod wrote; nil does not
}

// Put creates an object or replaces it, status included, as a controller in process would. The resource follows from the kind.
func (s *Objects) Put(o *unstructured.Unstructured) error {
	r, ok := resourceByKind(o.GetKind())
	if !ok {
		return fmt.Errorf("kind %q is not served", o.GetKind())
	}
	next := clone(o.Object)
	meta(next).SetResourceVersion("")
	if _, exists := s.state.get(r.name, o.GetNamespace(), o.GetName()); exists {
		meta(next).SetUID("")
		_, err := s.state.update(r, next, write{trusted: true})
		return err
	}
	_, err := s.state.create(r, next, false)
	return err
}

// SetCreated sets when an object was created, so that some are older than others.
func (s *Objects) SetCreated(o *unstructured.Unstructured, at time.Time) {
	if own, ok := s.state.(*store); ok {
		own.setCreated(o, at)
	}
}

// Remove deletes an object and what it owns, in process.
func (s *Objects) Remove(o *unstructured.Unstructured) error {
	r, ok := resourceByKind(o.GetKind())
	if !ok {
		return fmt.Errorf("kind %q is not served", o.GetKind())
	}
	policy := metav1.DeletePropagationForeground
	if s.controlled {
		policy = metav1.DeletePropagationBackground // or it stays until its pods are gone
	}
	_, err := s.state.remove(r, o.GetNamespace(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
	return err
}

// Get returns a copy of an object by its resource's plural name, or nil. Cluster-scoped ones have no namespace.
func (s *Objects) Get(resource, namespace, name string) *unstructured.Unstructured {
	o, ok := s.state.get(resource, namespace, name)
	if !ok {
		return nil
	}
	return meta(o)
}

// List returns copies of the objects of a resource by namespace and name; an empty namespace is all.
func (s *Objects) List(resource, namespace string) []*unstructured.Unstructured {
	found, _ := s.state.list(resource, namespace)
	list := make([]*unstructured.Unstructured, len(found))
	for i, o := range found {
		list[i] = meta(o)
	}
	return list
}

// Everything lists the objects of all resources but events, as "resource namespace/name".
func (s *Objects) Everything() (all []string) {
	for _, r := range resources() {
		if r.name == events || r.name == reviews {
			continue
		}
		for _, o := range s.state.peekAll(r.name, "") {
			all = append(all, r.name+" "+meta(o).GetNamespace()+"/"+meta(o).GetName())
		}
	}
	return all
}

// UIDs are those of all objects.
func (s *Objects) UIDs() map[types.UID]string {
	all := map[types.UID]string{}
	for _, r := range resources() {
		for _, o := range s.state.peekAll(r.name, "") {
			all[meta(o).GetUID()] = r.name + " " + meta(o).GetNamespace() + "/" + meta(o).GetName()
		}
	}
	return all
}

// Changed is closed at the next change of any object.
func (s *Objects) Changed() <-chan struct{} { return s.state.next() }
