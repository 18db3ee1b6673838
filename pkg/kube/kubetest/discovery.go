package kubetest

import (
	"net/http"
	"strings"
)

// serveDiscovery answers the paths that name no object; it returns false for all others.
func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request) bool {
	path := strings.Trim(r.URL.Path, "/")
	switch path {
	case "healthz", "readyz", "livez":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("ok"))
		return true
	case "version":
		writeJSON(w, http.StatusOK, object{
			"major": "1", "minor": "36", "gitVersion": "v1.36.3-eks-testbed", "platform": "linux/amd64",
		})
		return true
	case "api":
		writeJSON(w, http.StatusOK, object{"kind": "APIVersions", "versions": []string{"v1"}})
		return true
	case "apis":
		writeJSON(w, http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": s.apiGroups()})
		return true
	case "api/v1":
		writeJSON(w, http.StatusOK, resourceList("", "v1"))
		return true
	}
	parts := strings.Split(path, "/")
	if parts[0] != "apis" || len(parts) > 3 {
		return false
	}
	for _, g := range s.apiGroups() {
		if g["name"] != parts[1] {
			continue
		}
		if len(parts) == 2 {
			writeJSON(w, http.StatusOK, g)
			return true
		}
		list := resourceList(parts[1], parts[2])
		if found, ok := list["resources"].([]object); !ok || len(found) == 0 {
			return false
		}
		writeJSON(w, http.StatusOK, list)
		return true
	}
	return false
}

func (s *Server) apiGroups() []object {
	var groups []object
	seen := map[string]bool{"": true}
	for _, r := range resources() {
		if seen[r.group] || !s.serves(r.group) {
			continue
		}
		seen[r.group] = true
		version := object{"groupVersion": r.apiVersion(), "version": r.version}
		groups = append(groups, object{
			"kind": "APIGroup", "apiVersion": "v1",
			"name": r.group, "versions": []object{version}, "preferredVersion": version,
		})
	}
	return groups
}

func resourceList(group, version string) object {
	list := []object{}
	groupVersion := version
	for _, r := range resources() {
		if r.group != group || r.version != version {
			continue
		}
		groupVersion = r.apiVersion()
		verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		if r.name == reviews {
			verbs = []string{"create"}
		}
		list = append(list, object{
			"name": r.name, "singularName": strings.ToLower(r.kind), "kind": r.kind,
			"namespaced": r.namespaced, "verbs": verbs, "shortNames": r.short,
		})
		if r.status {
			list = append(list, object{
				"name": r.name + "/status", "singularName": "", "kind": r.kind,
				"namespaced": r.namespaced, "verbs": []string{"get", "patch", "update"},
			})
		}
	}
	return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": list}
}
