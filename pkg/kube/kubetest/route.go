package kubetest

import (
	"net/http"
	"strings"
)

// logs is the subresource of a pod whose answer is text.
const logs = "log"

// portForward is the subresource of a pod whose answer is an upgraded connection.
const portForward = "portforward"

// request is a call for a resource, by its URL and method.
type request struct {
	resource    resource
	namespace   string
	name        string
	subresource string
	verb        string // of Kubernetes: get, list, watch, create, update, patch, delete, deletecollection
}

func (r request) mutating() bool {
	switch r.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return r.resource.name != reviews && r.subresource != portForward
	}
	return false
}

// permitted is the resource as roles name it.
func (r request) permitted() string {
	if r.subresource == logs || r.subresource == portForward {
		return r.resource.name + "/" + r.subresource
	}
	return r.resource.name
}

// target is "ns/name" or "name", as the list of mutating calls shows it.
func (r request) target() string {
	if r.namespace == "" {
		return r.name
	}
	return r.namespace + "/" + r.name
}

// parseRoute reads /api/v1/... and /apis/GROUP/VERSION/...
func parseRoute(req *http.Request) (request, bool) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var group, version string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return request{}, false
	}
	var found request
	// "namespaces" is a prefix of other paths and a resource with a /status of its own.
	if parts[0] == namespaces && len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
		found.namespace, parts = parts[1], parts[2:]
	}
	r, ok := resourceByName(group, version, parts[0])
	if !ok || len(parts) > 3 {
		return request{}, false
	}
	found.resource = r
	if len(parts) > 1 {
		found.name = parts[1]
	}
	if len(parts) > 2 {
		found.subresource = parts[2]
		log := found.subresource == logs && r.name == pods && req.Method == http.MethodGet
		if found.subresource == portForward && r.name == pods {
			found.verb = map[string]string{http.MethodPost: "create", http.MethodGet: "get"}[req.Method]
			return found, found.verb != ""
		}
		if !log && (found.subresource != "status" || !r.status) {
			return request{}, false
		}
	}
	found.verb = verbOf(req, found.name)
	return found, found.verb != ""
}

func verbOf(req *http.Request, name string) string {
	switch req.Method {
	case http.MethodGet:
		if w := req.URL.Query().Get("watch"); w == "true" || w == "1" {
			return "watch"
		}
		if name == "" {
			return "list"
		}
		return "get"
	case http.MethodPost:
		if name == "" {
			return "create"
		}
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return ""
}
