package kubetest

import (
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// object is a stored object. Objects in the store are never changed: writes put a new one.
type object = map[string]any

type objectKey struct{ namespace, name string }

// change is one change of an object. old is nil for an addition; object is the last state for a deletion.
type change struct {
	version  int64
	resource string
	action   string // ADDED, MODIFIED, DELETED
	object   object
	old      object
}

// historyLimit bounds the changes kept for watches; a watch from before that is refused as too old.
const historyLimit = 20000

// store holds all objects and the history of changes. It is safe for concurrent use.
type store struct {
	mu        sync.Mutex
	clock     timescale.Clock
	objects   map[string]map[objectKey]object
	version   int64
	history   []change
	forgotten int64         // version of the last change dropped from the history
	changed   chan struct{} // closed at the next change
	converted decodings
	// collected means that an Operator collects what TidbClusters own, some time after they are gone; gone are those whose
	// objects it has not collected yet.
	collected bool
	gone      map[types.UID]bool
	emptied   map[string]bool // namespaces that were deleted once
}

func newStore(clock timescale.Clock) *store {
	return &store{clock: clock, objects: map[string]map[objectKey]object{}, gone: map[types.UID]bool{}, emptied: map[string]bool{}, version: 1, changed: make(chan struct{})}
}

// get returns a copy.
func (s *store) get(res, namespace, name string) (object, bool) {
	o, ok := s.peek(res, namespace, name)
	if !ok {
		return nil, false
	}
	return clone(o), true
}

// list returns copies ordered by namespace and name, and the version of the list. An empty namespace is all.
func (s *store) list(res, namespace string) ([]object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.objects[res], namespace), s.version
}

func (s *store) peek(res, namespace, name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[res][objectKey{namespace, name}]
	return o, ok
}

func (s *store) peekAll(res, namespace string) []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inOrder(s.objects[res], namespace)
}

func (s *store) decodings() *decodings { return &s.converted }

// create fills in what a server fills in and stores o, which it owns from now on.
func (s *store) create(r resource, o object, dryRun bool) (object, error) {
	m := meta(o)
	if m.GetName() == "" && m.GetGenerateName() != "" {
		m.SetName(m.GetGenerateName() + utilrand.String(5))
	}
	if m.GetResourceVersion() != "" {
		return nil, apierrors.NewInternalError(fmt.Errorf("resourceVersion should not be set on objects to be created"))
	}
	if err := validate(r, o, nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := objectKey{m.GetNamespace(), m.GetName()}
	if _, exists := s.objects[r.name][key]; exists {
		return nil, apierrors.NewAlreadyExists(r.groupResource(), key.name)
	}
	if err := s.overQuota(r, key, o); err != nil {
		return nil, err
	}
	if r.name == claims {
		s.defaultClass(o)
	}
	m.SetUID(uuid.NewUUID())
	m.SetCreationTimestamp(metav1.NewTime(s.clock.Now().UTC()))
	m.SetDeletionTimestamp(nil)
	if r.name != events && r.name != "configmaps" && r.name != "secrets" {
		m.SetGeneration(1)
	}
	if !dryRun {
		s.put(r.name, key, o, nil)
	}
	return clone(o), nil
}

// defaultClass gives a new claim that names no StorageClass the default one, if there is one: a claim of "" wants none.
func (s *store) defaultClass(claim object) {
	spec := nested(claim, "spec")
	if _, has := spec["storageClassName"]; has {
		return
	}
	for key, class := range s.objects[storageClasses] {
		if meta(class).GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true" {
			spec["storageClassName"] = key.name
			return
		}
	}
}

// write is how an update is meant.
type write struct {
	status  bool // by way of the subresource: only the status changes
	trusted bool // by a controller in process: spec and status together
	dryRun  bool
}

// update replaces an object. A resource version that is not the current one is a conflict.
func (s *store) update(r resource, o object, how write) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := meta(o)
	key := objectKey{m.GetNamespace(), m.GetName()}
	old, exists := s.objects[r.name][key]
	if !exists {
		return nil, apierrors.NewNotFound(r.groupResource(), key.name)
	}
	was := meta(old)
	if v := m.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.groupResource(), key.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := m.GetUID(); uid != "" && uid != was.GetUID() {
		return nil, apierrors.NewConflict(r.groupResource(), key.name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, was.GetUID()))
	}
	next := clone(o)
	if r.status && !how.trusted {
		next = mergeStatus(old, next, how.status)
	}
	n := meta(next)
	n.SetUID(was.GetUID())
	n.SetCreationTimestamp(was.GetCreationTimestamp())
	n.SetResourceVersion(was.GetResourceVersion())
	n.SetGeneration(was.GetGeneration())
	if same(old, next) {
		return clone(old), nil // as the real one: no new version
	}
	if err := validate(r, next, old); err != nil {
		return nil, err
	}
	if was.GetGeneration() > 0 && contentChanged(r, old, next) {
		n.SetGeneration(was.GetGeneration() + 1)
	}
	if !how.dryRun {
		protected := r.name == volumes || r.name == claims
		s.put(r.name, key, next, old)
		if n.GetDeletionTimestamp() != nil && (len(n.GetFinalizers()) == 0 || protected && !s.held(r, next)) {
			s.drop(r.name, key, false)
		}
	}
	return clone(next), nil
}

func (s *store) setCreated(o *unstructured.Unstructured, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := resourceByKind(o.GetKind())
	key := objectKey{o.GetNamespace(), o.GetName()}
	if old, exists := s.objects[r.name][key]; exists {
		next := clone(old)
		meta(next).SetCreationTimestamp(metav1.NewTime(at))
		s.put(r.name, key, next, old)
	}
}

func (s *store) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// put stores o and notifies the watches. The caller holds the lock.
func (s *store) put(res string, key objectKey, o, old object) {
	s.version++
	meta(o).SetResourceVersion(strconv.FormatInt(s.version, 10))
	if s.objects[res] == nil {
		s.objects[res] = map[objectKey]object{}
	}
	s.objects[res][key] = o
	action := "MODIFIED"
	if old == nil {
		action = "ADDED"
	}
	s.notify(change{version: s.version, resource: res, action: action, object: o, old: old})
}

func (s *store) notify(c change) {
	s.history = append(s.history, c)
	if len(s.history) > historyLimit {
		drop := len(s.history) / 2
		s.forgotten = s.history[drop-1].version
		s.history = append([]change(nil), s.history[drop:]...)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// since returns the changes of a resource after version, the version up to which it has read, and a channel
// that is closed at the next change. known is false if the history does not reach back so far.
func (s *store) since(res string, version int64) (changes []change, upTo int64, next <-chan struct{}, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.forgotten {
		return nil, 0, s.changed, false
	}
	first := sort.Search(len(s.history), func(i int) bool { return s.history[i].version > version })
	for _, c := range s.history[first:] {
		if c.resource == res {
			changes = append(changes, c)
		}
	}
	return changes, s.version, s.changed, true
}

// mergeStatus keeps the half of the old object that this write may not touch.
func mergeStatus(old, next object, statusOnly bool) object {
	if statusOnly {
		merged := clone(old)
		copyField(merged, next, "status")
		return merged
	}
	copyField(next, old, "status")
	return next
}

func copyField(to, from object, field string) {
	if v, ok := from[field]; ok {
		to[field] = v
		return
	}
	delete(to, field)
}

// contentChanged decides about the generation: where there is no status subresource, as with the
// TidbCluster, a change of the status counts too.
func contentChanged(r resource, a, b object) bool {
	for _, m := range []object{a, b} {
		for field := range m {
			if field == "metadata" || (field == "status" && r.status) {
				continue
			}
			if !same(a[field], b[field]) {
				return true
			}
		}
	}
	return false
}

func meta(o object) *unstructured.Unstructured { return &unstructured.Unstructured{Object: o} }

func clone(o object) object { return meta(o).DeepCopy().Object }
