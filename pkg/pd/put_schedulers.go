package pd

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// schedulersItem is the config item that lists PD's schedulers.
const schedulersItem = "schedulers-v2"

// scheduler is an entry of that list.
type scheduler struct {
	Type    string   `json:"type"`
	Args    []string `json:"args"`
	Disable bool     `json:"disable"`
}

// WithoutSchedulers returns the state without its schedulers, for a PD that must not start any yet.
func WithoutSchedulers(state cluster.PDState) cluster.PDState {
	return withSchedule(state, func(schedule map[string]json.RawMessage) bool {
		delete(schedule, schedulersItem)
		return true
	})
}

// WithoutEvictions returns the state without the schedulers that move leaders away from a store: in a cluster of TiDB
// Operator 2.x all are the Operator's, which removes any other.
func WithoutEvictions(state cluster.PDState) cluster.PDState {
	return withSchedule(state, func(schedule map[string]json.RawMessage) bool {
		var list []json.RawMessage
		if json.Unmarshal(schedule[schedulersItem], &list) != nil {
			return false
		}
		kept := slices.DeleteFunc(list, func(raw json.RawMessage) bool {
			var s scheduler
			return json.Unmarshal(raw, &s) == nil && s.Type == evictLeader
		})
		text, err := json.Marshal(kept)
		schedule[schedulersItem] = text
		return err == nil
	})
}

// withSchedule returns the state with its schedule section changed, unless change returns false.
func withSchedule(state cluster.PDState, change func(schedule map[string]json.RawMessage) bool) cluster.PDState {
	var schedule map[string]json.RawMessage
	if json.Unmarshal(state.Config["schedule"], &schedule) != nil || !change(schedule) {
		return state
	}
	text, err := json.Marshal(schedule)
	if err != nil {
		return state
	}
	state.Config = maps.Clone(state.Config)
	state.Config["schedule"] = text
	return state
}

// schedulersIn returns the running schedulers by display name, nil if PD does not list them.
func schedulersIn(sections map[string]json.RawMessage) map[string]scheduler {
	var schedule map[string]json.RawMessage
	var list []scheduler
	if json.Unmarshal(sections["schedule"], &schedule) != nil ||
		json.Unmarshal(schedule[schedulersItem], &list) != nil {
		return nil
	}
	out := map[string]scheduler{}
	for _, s := range list {
		s.Args = slices.DeleteFunc(s.Args, func(arg string) bool { return arg == "" }) // an open range
		if !s.Disable {
			out[strings.Join(append([]string{s.name()}, s.Args...), " ")] = s
		}
	}
	return out
}

// name returns the scheduler's name in PD's API.
func (s scheduler) name() string {
	if s.Type == "hot-region" {
		return "balance-hot-region-scheduler"
	}
	return s.Type + "-scheduler"
}

// request returns the body that adds the scheduler, nil if PD's list does not have enough for it.
func (s scheduler) request() any {
	body := map[string]any{"name": s.name()}
	if len(s.Args) == 0 {
		return body
	}
	store, err := strconv.ParseUint(s.Args[0], 10, 64)
	if err != nil || len(s.Args) > 1 || s.Type != evictLeader && s.Type != "grant-leader" {
		return nil
	}
	body["store_id"] = store
	return body
}

// evictLeader is the type of the scheduler that moves the leaders of a store away. TiDB Operator adds one while a
// store's pod ends, and removes it when the pod is back.
const evictLeader = "evict-leader"

// schedulerDifferences lists the schedulers that PD lacks, and those that only PD has except for TiDB Operator's.
func schedulerDifferences(have, want map[string]scheduler) []difference {
	var out []difference
	if len(want) == 0 { // unknown
		return nil
	}
	for _, name := range sortedKeys(want) {
		if _, there := have[name]; there {
			continue
		}
		d := difference{what: "scheduler " + name}
		if body := want[name].request(); body != nil {
			d.method, d.path, d.body = http.MethodPost, apiPrefix+"/schedulers", body
		}
		out = append(out, d)
	}
	for _, name := range sortedKeys(have) {
		if _, had := want[name]; !had && have[name].Type != evictLeader {
			out = append(out, difference{what: "scheduler " + name, extra: true})
		}
	}
	return out
}
