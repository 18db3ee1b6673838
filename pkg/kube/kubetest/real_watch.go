package kubetest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// view takes what the watch of a resource shows.
type view struct {
	state    *remote
	resource resource
	read     func() // all is there now
}

var _ cache.ReflectorStore = (*view)(nil)

// Add notes a new object.
func (v *view) Add(obj any) error { return v.each(obj, v.state.saw) }

// Update notes a changed object.
func (v *view) Update(obj any) error { return v.each(obj, v.state.saw) }

// Delete forgets an object.
func (v *view) Delete(obj any) error { return v.each(obj, v.state.forget) }

// Resync does nothing: everything is looked at again and again.
func (v *view) Resync() error { return nil }

// Replace takes a list of all, and forgets what is not in it and older than it.
func (v *view) Replace(list []any, at string) error {
	listed := map[string]bool{}
	before, _ := v.state.list(v.resource.name, "")
	for _, obj := range list {
		if err := v.each(obj, func(r resource, o *unstructured.Unstructured) {
			listed[string(o.GetUID())] = true
			v.state.saw(r, o)
		}); err != nil {
			return err
		}
	}
	for _, o := range before {
		if !listed[string(meta(o).GetUID())] && version(o) <= revision(at) {
			v.state.forget(v.resource, meta(o))
		}
	}
	v.read()
	return nil
}

func (v *view) each(obj any, do func(resource, *unstructured.Unstructured)) error {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	do(v.resource, o)
	return nil
}
