package kubetest

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// podLog is what a pod's processes wrote: the one that runs, and the one before.
type podLog struct{ current, previous string }

// SetPodLog is what a pod's process wrote, and what the one before it did; "" is nothing, and no process before.
func (s *Server) SetPodLog(namespace, pod, current, previous string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.podLogs[namespace+"/"+pod] = podLog{current, previous}
}

// serveLog answers with text, as the kubelet does.
func (s *Server) serveLog(w http.ResponseWriter, c call) {
	if _, exists := s.store.peek(pods, c.namespace, c.name); !exists {
		writeError(w, apierrors.NewNotFound(c.resource.groupResource(), c.name))
		return
	}
	s.mu.Lock()
	log := s.podLogs[c.target()]
	s.mu.Unlock()
	text := log.current
	if c.http.URL.Query().Get("previous") == "true" {
		if text = log.previous; text == "" {
			writeError(w, apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", c.http.URL.Query().Get("container"), c.name)))
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = fmt.Fprint(w, text) // a client that is gone reads no log
}
