package kubetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// mustTyped converts a stored object; the server only stores what decodes, so an error is a bug of the stand-in.
func mustTyped[T any](o object) T {
	var v T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &v); err != nil {
		panic(fmt.Sprintf("kubetest: stored object does not decode: %v", err))
	}
	return v
}

// typed reads an object; it returns false if there is none.
func typed[T any](s state, res, namespace, name string) (T, bool) {
	o, ok := s.get(res, namespace, name)
	if !ok {
		var none T
		return none, false
	}
	return mustTyped[T](o), true
}

// untyped goes by way of JSON, so that numbers are those of the wire.
func untyped(v any) object {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("kubetest: object does not encode: %v", err))
	}
	o, err := decode(b)
	if err != nil {
		panic(fmt.Sprintf("kubetest: object does not decode: %v", err))
	}
	unset := []string{"creationTimestamp"}
	if m, ok := o["metadata"].(object); ok {
		for _, field := range unset {
			if m[field] == nil {
				delete(m, field)
			}
		}
	}
	return o
}

// modify changes an object as a controller does, status included, trying again after somebody else's write.
// An object that is gone meanwhile is left alone.
func modify[T any](s state, res, namespace, name string, change func(*T)) {
	for {
		o, ok := s.get(res, namespace, name)
		if !ok {
			return
		}
		v := mustTyped[T](o)
		change(&v)
		unchanged := mustTyped[T](o)
		if reflect.DeepEqual(v, unchanged) { // most are, and JSON takes longer
			return
		}
		after := untyped(v)
		if reflect.DeepEqual(untyped(unchanged), after) {
			return
		}
		r, _ := resourceByKind(meta(o).GetKind())
		if _, err := s.update(r, after, write{trusted: true}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// create stores a new object, if there is none of the name yet.
func (o *Operator) create(res string, v any) object {
	obj := untyped(v)
	r, _ := resourceByKind(meta(obj).GetKind())
	made, err := o.store.create(r, obj, false)
	if err != nil {
		made, _ = o.store.get(res, meta(obj).GetNamespace(), meta(obj).GetName())
	}
	return made
}

func annotate(o metav1.Object, key, value string) {
	a := o.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[key] = value
	o.SetAnnotations(a)
}

func label(o metav1.Object, key, value string) {
	l := o.GetLabels()
	if l == nil {
		l = map[string]string{}
	}
	l[key] = value
	o.SetLabels(l)
}

// sorted are copies by namespace and name.
func sorted(of map[objectKey]object, namespace string) []object {
	var found []object
	for key, o := range of {
		if namespace == "" || key.namespace == namespace {
			found = append(found, clone(o))
		}
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := meta(found[i]), meta(found[j])
		if a.GetNamespace() != b.GetNamespace() {
			return a.GetNamespace() < b.GetNamespace()
		}
		return a.GetName() < b.GetName()
	})
	return found
}
