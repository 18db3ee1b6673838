package pd

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// entry is a rule, label or group in one of the lists of PD's state.
type entry struct {
	id    string
	value map[string]any // without PD's own counters
	known bool           // PD has an entry with this id and another value
}

// changed lists the entries of want that are missing from have or differ there, in want's order. strip removes what
// PD itself writes into an entry from both sides.
func changed(want, have json.RawMessage, key string, strip func(map[string]any)) []entry {
	now := map[string]map[string]any{}
	for _, e := range entries(have, key, strip) {
		now[e.id] = e.value
	}
	var out []entry
	for _, e := range entries(want, key, strip) {
		value, known := now[e.id]
		if e.known = known; !same(value, e.value) {
			out = append(out, e)
		}
	}
	return out
}

// entries reads a list. Anything else, as from a damaged or newer PD, has no entries.
func entries(raw json.RawMessage, key string, strip func(map[string]any)) []entry {
	var list []map[string]any
	if exact(raw, &list) != nil {
		return nil
	}
	var out []entry
	for _, value := range list {
		if strip != nil {
			strip(value)
		}
		if id, ok := value[key].(string); ok {
			out = append(out, entry{id: id, value: value})
		}
	}
	return out
}

// withoutVersions removes PD's versions and times from a group's rules.
func withoutVersions(group map[string]any) {
	rules, _ := group["rules"].([]any)
	for _, r := range rules {
		if rule, ok := r.(map[string]any); ok {
			delete(rule, "version")
			delete(rule, "create_timestamp")
		}
	}
}

// withoutTokens removes the consumption from a resource group.
func withoutTokens(group map[string]any) {
	for _, at := range []string{"r_u_settings", "raw_resource_settings"} {
		settings, _ := group[at].(map[string]any)
		for _, s := range settings {
			if bucket, ok := s.(map[string]any); ok {
				delete(bucket, "state")
				delete(bucket, "tokens")
			}
		}
	}
}

// expires reports whether a label of the rule has a TTL, as those of imports, which are over by now.
func expires(rule map[string]any) bool {
	labels, _ := rule["labels"].([]any)
	for _, l := range labels {
		if label, ok := l.(map[string]any); ok && label["ttl"] != nil && label["ttl"] != "" {
			return true
		}
	}
	return false
}

// ownItems returns the items that are not restored: addresses of one PD cluster, and items with calls of their own.
func ownItems() []string {
	return []string{
		"pd-server.dashboard-address", "pd-server.metric-storage", "pd-server.runtime-services",
		"schedule.schedulers", "schedule.schedulers-v2", "schedule.schedulers-payload",
	}
}

// configItems returns the items of all sections by full name.
func configItems(sections map[string]json.RawMessage) map[string]any {
	items := map[string]any{}
	for section, raw := range sections {
		var values map[string]any
		if exact(raw, &values) != nil {
			continue
		}
		for name, value := range values {
			if item := section + "." + name; !slices.Contains(ownItems(), item) {
				items[item] = value
			}
		}
	}
	return items
}

// exact decodes numbers as written: some do not fit a float64.
func exact(raw json.RawMessage, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
