package kubetest

import (
	"context"
	"reflect"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// remote is the state of a real API server: what its watches have shown, and what it answered to writes of this process, which
// are seen at once.
type remote struct {
	api  dynamic.Interface
	logf func(format string, args ...any)

	mu        sync.Mutex
	objects   map[string]map[objectKey]object
	converted decodings
	removed   map[string]bool // by uid: an answer that comes late does not bring one back
	changed   chan struct{}
}

func (s *remote) get(res, namespace, name string) (object, bool) {
	o, ok := s.peek(res, namespace, name)
	if !ok {
		return nil, false
	}
	return clone(o), true
}

// list returns no version: no caller in this process watches from there.
func (s *remote) list(res, namespace string) ([]object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.objects[res], namespace), 0
}

func (s *remote) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *remote) peek(res, namespace, name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[res][objectKey{namespace, name}]
	return o, ok
}

func (s *remote) peekAll(res, namespace string) []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inOrder(s.objects[res], namespace)
}

func (s *remote) decodings() *decodings { return &s.converted }

// create makes an object, and then writes its status, where that is apart.
func (s *remote) create(r resource, o object, _ bool) (object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	m := meta(clone(o))
	made, err := s.of(r, m.GetNamespace()).Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return nil, s.failed("create", r, m, err)
	}
	if status, has := o["status"]; has && r.status {
		if made, err = s.writeStatus(ctx, r, made, status); err != nil {
			return nil, s.failed("write the status of", r, m, err)
		}
	}
	s.saw(r, made)
	return clone(made.Object), nil
}

// update writes what differs from what was last seen: the object, its status, or both.
func (s *remote) update(r resource, o object, _ write) (object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	next := meta(clone(o))
	old, exists := s.get(r.name, next.GetNamespace(), next.GetName())
	if !exists {
		return nil, apierrors.NewNotFound(r.groupResource(), next.GetName())
	}
	if next.GetResourceVersion() == "" {
		next.SetResourceVersion(meta(old).GetResourceVersion())
	}
	status := next.Object["status"]
	if r.status {
		copyField(next.Object, old, "status")
	}
	now, api := meta(old), s.of(r, next.GetNamespace())
	var err error
	if !reflect.DeepEqual(next.Object, old) {
		if now, err = api.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return nil, s.stale(ctx, r, next, err)
		}
		s.saw(r, now)
	}
	if r.status && !reflect.DeepEqual(status, old["status"]) {
		now = now.DeepCopy()
		now.Object["status"] = status
		if now, err = api.UpdateStatus(ctx, now, metav1.UpdateOptions{}); err != nil {
			return nil, s.stale(ctx, r, next, err)
		}
		s.saw(r, now)
	}
	return clone(now.Object), nil
}

// writeStatus writes the status of a new object, of which controllers may have written something else meanwhile.
func (s *remote) writeStatus(ctx context.Context, r resource, o *unstructured.Unstructured, status any) (*unstructured.Unstructured, error) {
	api := s.of(r, o.GetNamespace())
	for {
		now := o.DeepCopy()
		now.Object["status"] = status
		written, err := api.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return written, err
		}
		if o, err = api.Get(ctx, now.GetName(), metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
}

// stale reads an object again whose version was not the newest, so that the next try is of the newest.
func (s *remote) stale(ctx context.Context, r resource, o *unstructured.Unstructured, err error) error {
	if !apierrors.IsConflict(err) {
		return s.failed("write", r, o, err)
	}
	now, getErr := s.of(r, o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
	if getErr != nil {
		return getErr
	}
	s.saw(r, now)
	return err
}

// remove deletes an object. Pods go at once, as their kubelet is in this process, and so does an attachment, whose attacher is.
func (s *remote) remove(r resource, namespace, name string, opts metav1.DeleteOptions) (object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	old, exists := s.get(r.name, namespace, name)
	if !exists {
		return nil, apierrors.NewNotFound(r.groupResource(), name)
	}
	if r.name == pods {
		opts.GracePeriodSeconds = new(int64)
	}
	if r.name == volumeAttachments {
		o := clone(old)
		meta(o).SetFinalizers(nil)
		if _, err := s.update(r, o, write{trusted: true}); err != nil {
			return nil, err
		}
	}
	if err := s.of(r, namespace).Delete(ctx, name, opts); ignoreNotFound(err) != nil {
		return nil, s.failed("delete", r, meta(old), err)
	}
	return old, nil
}

func (s *remote) of(r resource, namespace string) dynamic.ResourceInterface {
	if !r.namespaced {
		return s.api.Resource(r.gvr())
	}
	return s.api.Resource(r.gvr()).Namespace(namespace)
}

func (s *remote) failed(what string, r resource, o *unstructured.Unstructured, err error) error {
	if !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		s.logf("kubetest: %s %s %s/%s: %v", what, r.name, o.GetNamespace(), o.GetName(), err)
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// saw notes an object, unless what is known is newer.
func (s *remote) saw(r resource, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := objectKey{o.GetNamespace(), o.GetName()}
	if s.removed[string(o.GetUID())] {
		return
	}
	if s.objects[r.name] == nil {
		s.objects[r.name] = map[objectKey]object{}
	}
	if known, ok := s.objects[r.name][key]; ok && version(known) >= version(o.Object) {
		return
	}
	s.objects[r.name][key] = o.Object
	s.notify()
}

func (s *remote) forget(r resource, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed[string(o.GetUID())] = true
	key := objectKey{o.GetNamespace(), o.GetName()}
	if known, ok := s.objects[r.name][key]; ok && meta(known).GetUID() == o.GetUID() {
		delete(s.objects[r.name], key)
		s.notify()
	}
}

func (s *remote) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// version is that of etcd: a number that grows.
func version(o object) int64 {
	return revision(meta(o).GetResourceVersion())
}

func revision(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
