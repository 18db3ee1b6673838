package kubetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
func typed[T any, P copied[T]](s state, res, namespace, name string) (T, bool) {
	o, ok := s.peek(res, namespace, name)
	if !ok {
		var none T
		return none, false
	}
	return decoded[T, P](s, o), true
}

// decoded is a copy of a stored object, as peek and peekAll return it, in its type. Controllers read the same objects over
// and over: each version is converted once.
func decoded[T any, P copied[T]](s state, o object) T {
	var out T
	inType[T, P](s, o).DeepCopyInto(&out)
	return out
}

// inType is decoded, but not to be changed: all who read the object share it.
func inType[T any, P copied[T]](s state, o object) P {
	known := s.decodings()
	uid := meta(o).GetUID()
	known.mu.Lock()
	defer known.mu.Unlock()
	last := known.byUID[uid]
	value, ok := last.value.(P)
	if !ok || reflect.ValueOf(last.of).Pointer() != reflect.ValueOf(o).Pointer() {
		converted := mustTyped[T](o)
		value = &converted
		if known.byUID == nil {
			known.byUID = map[types.UID]decoding{}
		}
		known.byUID[uid] = decoding{of: o, value: value}
	}
	return value
}

// decodings are the last conversions of objects. An object in the store never changes, so the same map is the same object.
type decodings struct {
	mu    sync.Mutex
	byUID map[types.UID]decoding
}

type decoding struct {
	of    object
	value any
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

// copied is a kind whose type copies itself.
type copied[T any] interface {
	*T
	DeepCopyInto(*T)
}

// modify changes an object as a controller does, status included, retrying after someone else's write.
// An object that is gone meanwhile is left alone.
func modify[T any, P copied[T]](s state, res, namespace, name string, change func(*T)) {
	for {
		o, ok := s.peek(res, namespace, name)
		if !ok {
			return
		}
		unchanged := inType[T, P](s, o)
		var v T
		unchanged.DeepCopyInto(&v)
		change(&v)
		if reflect.DeepEqual(v, *unchanged) { // most are, and JSON takes longer
			return
		}
		after := untyped(v)
		if same(o, after) {
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

// same reports whether two values of JSON are equal, as reflect.DeepEqual does in several times the time.
func same(a, b any) bool {
	switch a := a.(type) {
	case object:
		b, is := b.(object)
		if !is || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for key, value := range a {
			if other, has := b[key]; !has || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		return is && (a == nil) == (b == nil) && slices.EqualFunc(a, b, same)
	case string, bool, int64, float64, nil:
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// sorted are copies by namespace and name.
func sorted(of map[objectKey]object, namespace string) []object {
	found := inOrder(of, namespace)
	for i, o := range found {
		found[i] = clone(o)
	}
	return found
}

// inOrder are the objects themselves by namespace and name.
func inOrder(of map[objectKey]object, namespace string) []object {
	var found []object
	for key, o := range of {
		if namespace == "" || key.namespace == namespace {
			found = append(found, o)
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
