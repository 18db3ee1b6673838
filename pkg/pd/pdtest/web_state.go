package pdtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
)

// stateRoutes are PD's rules, labels and resource groups.
func (s *Server) stateRoutes() []route {
	return []route{
		{"GET " + api + "/config/placement-rule", named("PlacementRules"), true, s.getPlacement},
		{"POST " + api + "/config/placement-rule", named("SetPlacementRules"), true, s.postPlacement},
		{"GET " + api + "/config/region-label/rules", named("RegionLabels"), true, s.getLabels},
		{"PATCH " + api + "/config/region-label/rules", named("SetRegionLabels"), true, s.patchLabels},
		{"GET /resource-manager/api/v1/config/groups", named("ResourceGroups"), false, s.getGroups},
		{"POST /resource-manager/api/v1/config/group", named("AddResourceGroup"), false, s.postGroup},
		{"PUT /resource-manager/api/v1/config/group", named("SetResourceGroup"), false, s.putGroup},
	}
}

// rules are lists by the key that names an entry, as PD's etcd has them.
type rules struct {
	placement map[string]object // by group_id
	labels    map[string]object // by id
	groups    map[string]object // by name
}

type object = map[string]any

// newRules is what PD has from its start: three voters of everything, and the resource group default.
func newRules() rules {
	return rules{
		placement: map[string]object{"pd": {
			"group_id": "pd", "group_index": 0.0, "group_override": false,
			"rules": []any{object{
				"group_id": "pd", "id": "default", "start_key": "", "end_key": "", "role": "voter", "is_witness": false, "count": 3.0,
			}},
		}},
		labels: map[string]object{},
		groups: map[string]object{"default": {
			"name": "default", "mode": 1.0, "priority": 8.0,
			"r_u_settings": object{"r_u": object{"settings": object{"fill_rate": 2147483647.0, "burst_limit": -1.0}}},
		}},
	}
}

// Rules are PD's entries of one kind by their names: "placement", "labels" or "groups".
func (s *Server) Rules(kind string) map[string]map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]any{}
	for id, entry := range map[string]map[string]object{
		"placement": s.disk.rules.placement, "labels": s.disk.rules.labels, "groups": s.disk.rules.groups,
	}[kind] {
		out[id] = entry
	}
	return out
}

// listed are the entries in the order of their names.
func listed(entries map[string]object, key string) []object {
	out := []object{}
	for _, entry := range entries {
		out = append(out, entry)
	}
	slices.SortFunc(out, func(a, b object) int { return cmp.Compare(text(a[key]), text(b[key])) })
	return out
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func (s *Server) placementOffLocked() bool {
	return s.configLocked("replication.enable-placement-rules") != "true"
}

const errPlacementOff = "[PD:placement:ErrRuleDisabled]placement rules feature is disabled"

func (s *Server) getPlacement(*request) answer {
	if s.placementOffLocked() {
		return refuse(http.StatusPreconditionFailed, errPlacementOff)
	}
	return answer{body: listed(s.disk.rules.placement, "group_id")}
}

// postPlacement replaces the groups in the body; without partial=true it drops all others.
func (s *Server) postPlacement(r *request) answer {
	if s.placementOffLocked() {
		return refuse(http.StatusPreconditionFailed, errPlacementOff)
	}
	var groups []object
	if err := json.Unmarshal(r.body, &groups); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	if r.URL.Query().Get("partial") != "true" {
		clear(s.disk.rules.placement)
	}
	for _, g := range groups {
		s.disk.rules.placement[text(g["group_id"])] = g
	}
	return answer{body: "Update rules and groups successfully.", call: "SetPlacementRules"}
}

func (s *Server) getLabels(*request) answer { return answer{body: listed(s.disk.rules.labels, "id")} }

func (s *Server) patchLabels(r *request) answer {
	var patch struct {
		Sets    []object `json:"sets"`
		Deletes []string `json:"deletes"`
	}
	if err := json.Unmarshal(r.body, &patch); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	for _, rule := range patch.Sets {
		if rule["rule_type"] != "key-range" {
			return refuse(http.StatusBadRequest, "[PD:region:ErrRegionRuleContent]invalid region rule content, invalid rule type: "+text(rule["rule_type"]))
		}
	}
	for _, rule := range patch.Sets {
		s.disk.rules.labels[text(rule["id"])] = rule
	}
	for _, id := range patch.Deletes {
		delete(s.disk.rules.labels, id)
	}
	return answer{body: "Update region label rules successfully.", call: "SetRegionLabels"}
}

// getGroups shows how many tokens each group has, too, which changes all the time.
func (s *Server) getGroups(*request) answer {
	var out []object
	for _, g := range listed(s.disk.rules.groups, "name") {
		shown := object{}
		for k, v := range g {
			shown[k] = v
		}
		if units, ok := g["r_u_settings"].(object); ok {
			if bucket, ok := units["r_u"].(object); ok {
				shown["r_u_settings"] = object{"r_u": object{
					"settings": bucket["settings"], "state": object{"initialized": true, "tokens": float64(s.now().UnixNano() % 1000)},
				}}
			}
		}
		out = append(out, shown)
	}
	return answer{body: out}
}

func (s *Server) postGroup(r *request) answer { return s.setGroup(r, false) }

func (s *Server) putGroup(r *request) answer { return s.setGroup(r, true) }

func (s *Server) setGroup(r *request, exists bool) answer {
	group, err := r.fields()
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	_, found := s.disk.rules.groups[text(group["name"])]
	switch {
	case exists && !found:
		return answer{status: http.StatusInternalServerError, body: rawText("[PD:resourcemanager:ErrGroupNotExists]the group does not exist")}
	case !exists && found:
		return answer{status: http.StatusInternalServerError, body: rawText("resource group already exists")}
	}
	s.disk.rules.groups[text(group["name"])] = group
	return answer{body: rawText("Success!"), call: "SetResourceGroup " + text(group["name"])}
}
