package kubetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// defaultWatch is how long a watch lasts if the client does not ask for a time.
const defaultWatch = 30 * time.Minute

// watcher streams the changes of one resource to one client.
type watcher struct {
	call
	filter filter
	out    *json.Encoder
	flush  func() error
}

// watch streams until the client goes, the server closes or the asked time is over.
func (s *Server) watch(w http.ResponseWriter, c call) {
	f, err := parseFilter(c.http)
	if err != nil {
		writeError(w, err)
		return
	}
	query := c.http.URL.Query()
	from := int64(0)
	if v := query.Get("resourceVersion"); v != "" {
		if from, err = strconv.ParseInt(v, 10, 64); err != nil {
			writeError(w, apierrors.NewBadRequest("invalid resource version: "+err.Error()))
			return
		}
	}
	limit := defaultWatch
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		limit = time.Duration(seconds) * time.Second
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stream := watcher{call: c, filter: f, out: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	bookmark := query.Get("sendInitialEvents") == "true"
	if from == 0 || bookmark {
		from = s.sendInitial(stream, bookmark)
	}
	s.follow(stream, from, limit)
}

// sendInitial sends what exists as additions, then the bookmark that ends them if the client asked for it.
func (s *Server) sendInitial(to watcher, bookmark bool) int64 {
	found, version := s.store.list(to.resource.name, to.namespace)
	for _, o := range found {
		if to.wants(o) {
			_ = to.send("ADDED", o)
		}
	}
	if bookmark {
		_ = to.send("BOOKMARK", object{
			"kind": to.resource.kind, "apiVersion": to.resource.apiVersion(),
			"metadata": object{
				"resourceVersion": strconv.FormatInt(version, 10),
				"annotations":     object{"k8s.io/initial-events-end": "true"},
			},
		})
	}
	return version
}

func (s *Server) follow(to watcher, from int64, limit time.Duration) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		changes, upTo, next, known := s.store.since(to.resource.name, from)
		if !known {
			status := apierrors.NewResourceExpired("too old resource version: " + strconv.FormatInt(from, 10)).ErrStatus
			status.Kind, status.APIVersion = "Status", "v1"
			_ = to.send("ERROR", status)
			_ = to.flush()
			return
		}
		for _, c := range changes {
			if err := to.pass(c); err != nil {
				return
			}
		}
		if err := to.flush(); err != nil {
			return
		}
		from = upTo
		select {
		case <-next:
		case <-timeout.C:
			return
		case <-to.http.Context().Done():
			return
		}
	}
}

// pass sends a change as the filtered client sees it: an object that comes to match is added, one that no
// longer matches is deleted.
func (to watcher) pass(c change) error {
	before := c.old != nil && to.wants(c.old)
	after := c.action != "DELETED" && to.wants(c.object)
	switch {
	case before && after:
		return to.send("MODIFIED", c.object)
	case after:
		return to.send("ADDED", c.object)
	case before:
		return to.send("DELETED", c.object)
	}
	return nil
}

func (to watcher) wants(o object) bool {
	m := meta(o)
	return (to.namespace == "" || m.GetNamespace() == to.namespace) &&
		(to.name == "" || m.GetName() == to.name) && to.filter.matches(o)
}

func (to watcher) send(action string, o any) error {
	return to.out.Encode(map[string]any{"type": action, "object": o})
}
