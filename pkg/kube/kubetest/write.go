package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// patchTries is how often a patch without a resource version is done again after someone else's write, as in the real server.
const patchTries = 5

// incoming decodes the body and checks it against the URL.
func (c call) incoming() (object, error) {
	o, err := decode(c.body)
	if err != nil {
		return nil, err
	}
	m := meta(o)
	if m.GetKind() != c.resource.kind && c.resource.custom() { // a custom resource: its kind is a field like others
		return nil, apierrors.NewInvalid(c.resource.groupKind(), m.GetName(),
			field.ErrorList{field.Invalid(field.NewPath("kind"), m.GetKind(), "must be "+c.resource.kind)})
	}
	if m.GetKind() != c.resource.kind || m.GetAPIVersion() != c.resource.apiVersion() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q",
			m.GetKind(), m.GetAPIVersion(), c.resource.kind, m.GetKind(), m.GetAPIVersion()))
	}
	switch {
	case !c.resource.namespaced:
		m.SetNamespace("")
	case m.GetNamespace() == "":
		m.SetNamespace(c.namespace)
	case m.GetNamespace() != c.namespace:
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if c.name != "" {
		if m.GetName() != c.name {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), c.name))
		}
	}
	return o, nil
}

func (c call) dryRun() bool { return c.http.URL.Query().Get("dryRun") == metav1.DryRunAll }

func (s *Server) create(c call) (any, error) {
	o, err := c.incoming()
	if err != nil {
		return nil, err
	}
	if c.resource.namespaced && c.namespace == "" {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	if c.resource.status {
		delete(o, "status")
	}
	if err := s.dropUnknown(c, o); err != nil {
		return nil, err
	}
	s.fillIn(c, o)
	return s.store.create(c.resource, o, c.dryRun())
}

// dropUnknown drops the fields that the definitions lack, or refuses them if it is asked to be strict.
func (s *Server) dropUnknown(c call, o object) error {
	s.mu.Lock()
	paths := s.unknown[c.resource.name]
	s.mu.Unlock()
	for _, path := range paths {
		fields := strings.Split(path, ".")
		if _, has, _ := unstructured.NestedFieldNoCopy(o, fields...); !has {
			continue
		}
		if c.http.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict {
			return apierrors.NewBadRequest(fmt.Sprintf("strict decoding error: unknown field %q", path))
		}
		unstructured.RemoveNestedField(o, fields...)
	}
	return nil
}

// fillIn adds what the real server adds to a new object and a restore has to take away again.
func (s *Server) fillIn(c call, o object) {
	manager, _, _ := strings.Cut(c.http.UserAgent(), "/")
	now := metav1.NewTime(s.cfg.Clock.Now().UTC())
	meta(o).SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: c.resource.apiVersion(),
		Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
	}})
	switch c.resource.name {
	case claims:
		meta(o).SetFinalizers([]string{claimProtection})
		o["status"] = object{"phase": "Pending"}
	case volumes:
		meta(o).SetFinalizers([]string{"kubernetes.io/pv-protection"})
		o["status"] = object{"phase": "Pending"}
	case "resourcequotas": // admission goes by the status, which a controller writes
		hard, _, _ := unstructured.NestedFieldCopy(o, "spec", "hard")
		o["status"] = object{"hard": hard}
	case pods:
		o["status"] = object{"phase": "Pending", "qosClass": "BestEffort"}
	}
}

func (s *Server) update(c call) (any, error) {
	o, err := c.incoming()
	if err != nil {
		return nil, err
	}
	return s.store.update(c.resource, o, write{status: c.subresource == "status", dryRun: c.dryRun()})
}

func (s *Server) patch(c call) (any, error) {
	kind, _, err := mime.ParseMediaType(c.http.Header.Get("Content-Type"))
	if err != nil {
		return nil, apierrors.NewBadRequest("content type of the patch: " + err.Error())
	}
	for try := 1; ; try++ {
		old, exists := s.store.get(c.resource.name, c.namespace, c.name)
		if !exists {
			if kind == "application/apply-patch+yaml" {
				return s.create(c.withoutName())
			}
			return nil, apierrors.NewNotFound(c.resource.groupResource(), c.name)
		}
		next, err := applyPatch(kind, old, c.body)
		if err != nil {
			return nil, err
		}
		meta(next).SetName(c.name)
		updated, err := s.store.update(c.resource, next, write{status: c.subresource == "status", dryRun: c.dryRun()})
		// A patch that names no version applies to whatever is there; one that does is refused.
		named := meta(next).GetResourceVersion() != meta(old).GetResourceVersion()
		if apierrors.IsConflict(err) && !named && try < patchTries {
			continue
		}
		return updated, err
	}
}

func (c call) withoutName() call {
	c.name = ""
	return c
}

// applyPatch treats a strategic merge patch as a merge patch: lists are replaced.
func applyPatch(kind string, old object, patch []byte) (object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	switch kind {
	case "application/json-patch+json":
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			after, err = operations.Apply(before)
		}
	case "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml":
		var decoded object
		if decoded, err = decode(patch); err != nil {
			return nil, err
		}
		if patch, err = json.Marshal(decoded); err == nil {
			after, err = jsonpatch.MergePatch(before, patch)
		}
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch",
			metav1.Unversioned.WithResource("").GroupResource(), "", "the body of the request was in an unknown format: "+kind, 0, true)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var next object
	if err := utiljson.Unmarshal(after, &next); err != nil || next == nil {
		return nil, apierrors.NewBadRequest("the patch does not make an object")
	}
	return next, nil
}

func (c call) deleteOptions() (metav1.DeleteOptions, error) {
	var opts metav1.DeleteOptions
	if len(c.body) > 0 {
		body, err := toJSON(c.body)
		if err == nil {
			err = json.Unmarshal(body, &opts)
		}
		if err != nil {
			return opts, apierrors.NewBadRequest("delete options: " + err.Error())
		}
	}
	query := c.http.URL.Query()
	if p := query.Get("propagationPolicy"); p != "" {
		policy := metav1.DeletionPropagation(p)
		opts.PropagationPolicy = &policy
	}
	if text := query.Get("gracePeriodSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return opts, apierrors.NewBadRequest("gracePeriodSeconds: " + err.Error())
		}
		opts.GracePeriodSeconds = &seconds
	}
	if c.dryRun() {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return opts, nil
}

func (s *Server) deleteOne(c call) (any, error) {
	opts, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	if c.resource.name == namespaces && !s.store.removed(c.name) { // it need not have been made first
		_, _ = s.store.create(c.resource, object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": c.name},
		}, false)
	}
	gone, err := s.delete(c.resource, c.namespace, c.name, opts)
	if err != nil {
		return nil, err
	}
	if c.resource.name == pods || meta(gone).GetDeletionTimestamp() != nil { // the real server answers with what is still there
		return gone, nil
	}
	return object{
		"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success",
		"details": object{
			"name": c.name, "group": c.resource.group, "kind": c.resource.name, "uid": string(meta(gone).GetUID()),
		},
	}, nil
}

func (s *Server) deleteMany(c call) (any, error) {
	opts, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	f, err := parseFilter(c.http)
	if err != nil {
		return nil, err
	}
	found, _ := s.store.list(c.resource.name, c.namespace)
	for _, o := range found {
		if !f.matches(o) {
			continue
		}
		_, err := s.delete(c.resource, meta(o).GetNamespace(), meta(o).GetName(), opts)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, errors.Join(err)
		}
	}
	return object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success"}, nil
}
