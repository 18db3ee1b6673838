package kubetest

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Refusal is what a quota, an admission webhook or a ValidatingAdmissionPolicy answers to writes of a resource,
// dry runs included.
type Refusal struct {
	Verb, Resource string
	Status         int // 403 or 422
	Message        string
}

// Deny refuses a verb on a resource from now on, in access reviews and in calls; "*" is any verb or resource.
func (s *Server) Deny(verb, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[permission{verb, resource}] = true
}

// Allow undoes a Deny of the same verb and resource.
func (s *Server) Allow(verb, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.denied, permission{verb, resource})
}

func (s *Server) allowed(verb, resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range []permission{{verb, resource}, {"*", resource}, {verb, "*"}, {"*", "*"}} {
		if s.denied[p] {
			return false
		}
	}
	return true
}

// Refuse has admission refuse writes from now on.
func (s *Server) Refuse(r Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals = append(s.refusals, r)
}

// ForgetNamespace makes the server not know the namespace; otherwise namespaces need not be made first.
func (s *Server) ForgetNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing[name] = true
}

// ForgetGroup makes the server not serve an API group: its definitions are not installed.
func (s *Server) ForgetGroup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uninstalled[name] = true
}

// ForgetField has the definition of a resource lack a field, as that of an older version.
func (s *Server) ForgetField(resource, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown[resource] = append(s.unknown[resource], path)
}

func (s *Server) serves(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.uninstalled[group]
}

// How long the real server showed the effects of a restart.
const (
	restartRefusing = 130 * time.Millisecond
	restartAway     = 900 * time.Millisecond
)

// Restart begins what clients of a restarted API server see: everything is refused by RBAC, whose caches are empty,
// reviews included, and then unavailable. Port forwards are broken.
func (s *Server) Restart() {
	s.BreakForwards()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = time.Now().Add(restartRefusing)
	s.away = s.refusing.Add(restartAway)
}

// restarting returns the answer of a server that has just been restarted, or nil.
func (s *Server) restarting(c call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case now.Before(s.refusing):
		return forbidden(c)
	case now.Before(s.away):
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	}
	return nil
}

// admit asks admission: the namespace's state, quotas and policies.
func (s *Server) admit(c call) error {
	if !c.mutating() {
		return nil
	}
	gr := c.resource.groupResource()
	if c.verb == "create" && c.namespace != "" {
		s.mu.Lock()
		missing := s.missing[c.namespace]
		s.mu.Unlock()
		if missing || s.store.removed(c.namespace) {
			return apierrors.NewNotFound(resourceNamed(namespaces).groupResource(), c.namespace)
		}
		ns, _ := s.store.get(namespaces, "", c.namespace)
		if phase, _, _ := unstructured.NestedString(ns, "status", "phase"); phase == "Terminating" {
			return apierrors.NewForbidden(gr, c.name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.namespace))
		}
	}
	return s.refused(c.verb, c.resource, c.name)
}

// refused is what admission answers by Refuse.
func (s *Server) refused(verb string, of resource, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refusals {
		if r.Verb != verb || r.Resource != of.name {
			continue
		}
		if r.Status == http.StatusForbidden {
			return apierrors.NewForbidden(of.groupResource(), name, fmt.Errorf("%s", r.Message))
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: int32(r.Status), Reason: metav1.StatusReasonInvalid, //nolint:gosec // an HTTP status
			Message: fmt.Sprintf("%s %q is invalid: %s", of.name, name, r.Message),
		}}
	}
	return nil
}

// NewNamespace makes a namespace in a phase, Active or Terminating.
func NewNamespace(name, phase string) *unstructured.Unstructured {
	return meta(object{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": name}, "status": object{"phase": phase},
	})
}
