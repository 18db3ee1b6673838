package pd

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// entry is a rule, label or group of one of the lists in PD's state.
type entry struct {
	id    string
	value map[string]any // without what PD counts or measures by itself
	known bool           // PD has one of this id, another one
}

// changed lists the entries of want that have does not hold as they are, in want's order. What PD writes into an
// entry by itself is taken out of both by strip.
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

// entries reads a list. One that is none, as a damaged or a newer PD may give, has no entries.
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

// withoutVersions takes out what PD counts in the rules of a group.
func withoutVersions(group map[string]any) {
	rules, _ := group["rules"].([]any)
	for _, r := range rules {
		if rule, ok := r.(map[string]any); ok {
			delete(rule, "version")
			delete(rule, "create_timestamp")
		}
	}
}

// withoutTokens takes out how much of a resource group was used at the time.
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

// expires reports whether a label of the rule has a time limit: imports set such, and they are over.
func expires(rule map[string]any) bool {
	labels, _ := rule["labels"].([]any)
	for _, l := range labels {
		if label, ok := l.(map[string]any); ok && label["ttl"] != nil && label["ttl"] != "" {
			return true
		}
	}
	return false
}

// ownItems belong to one PD cluster and say nothing of another: addresses, and what has calls of its own.
func ownItems() []string {
	return []string{
		"pd-server.dashboard-address", "pd-server.metric-storage", "pd-server.runtime-services",
		"schedule.schedulers", "schedule.schedulers-v2", "schedule.schedulers-payload",
	}
}

// configItems are the items of all sections, by their full names.
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

// exact decodes numbers as they are written: some do not fit a double.
func exact(raw json.RawMessage, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
