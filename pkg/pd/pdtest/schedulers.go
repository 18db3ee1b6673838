package pdtest

import (
	"slices"
	"strconv"
	"strings"
)

const hotRegion = "balance-hot-region-scheduler"

// knownSchedulers are those that POST /schedulers adds, and whether they are of a store.
func knownSchedulers() map[string]bool {
	return map[string]bool{
		"balance-region-scheduler": false, balanceLeader: false, hotRegion: false, "evict-slow-store-scheduler": false,
		"shuffle-region-scheduler": false, "random-merge-scheduler": false, "evict-leader-scheduler": true, "grant-leader-scheduler": true,
	}
}

// addScheduler is POST /schedulers, as pd-ctl sends it.
func (s *Server) addScheduler(r *request) answer {
	m, err := r.fields()
	if err != nil {
		return refuse(400, err.Error())
	}
	name, _ := m["name"].(string)
	ofStore, known := knownSchedulers()[name]
	if !known {
		return refuse(400, "unknown scheduler")
	}
	if !s.coordinatorLocked() {
		return refuse(500, "[PD:cluster:ErrNotBootstrapped]TiKV cluster not bootstrapped, please start TiKV first")
	}
	id, ok := m["store_id"].(float64)
	if ofStore && !ok {
		return refuse(400, "missing store id")
	}
	if store := strconv.FormatUint(uint64(id), 10); ofStore && !slices.Contains(s.disk.schedulerArgs[name], store) {
		s.disk.schedulerArgs[name] = append(s.disk.schedulerArgs[name], store)
	}
	if !slices.Contains(s.disk.schedulers, name) {
		s.disk.schedulers = append(s.disk.schedulers, name)
	}
	return answer{body: "The scheduler is created.", call: "AddScheduler " + name}
}

// deleteScheduler is DELETE /schedulers/{name}. The scheduler that evicts leaders is named with one of its stores, and goes with
// the last of them.
func (s *Server) deleteScheduler(r *request) answer {
	const evict = "evict-leader-scheduler"
	name := r.PathValue("name")
	done := answer{body: "The scheduler is removed.", call: "RemoveScheduler " + name}
	if store, ok := strings.CutPrefix(name, evict+"-"); ok {
		stores := s.disk.schedulerArgs[evict]
		if !slices.Contains(stores, store) {
			return refuse(404, "[PD:scheduler:ErrSchedulerNotFound]scheduler not found")
		}
		stores = slices.DeleteFunc(slices.Clone(stores), func(other string) bool { return other == store })
		s.disk.schedulerArgs[evict] = stores
		if len(stores) > 0 {
			return done
		}
		name = evict
	}
	if !slices.Contains(s.disk.schedulers, name) {
		return refuse(404, "[PD:scheduler:ErrSchedulerNotFound]scheduler not found")
	}
	s.disk.schedulers = slices.DeleteFunc(s.disk.schedulers, func(other string) bool { return other == name })
	return done
}

// getEvicted lists the stores whose leaders are evicted.
func (s *Server) getEvicted(*request) answer {
	ranges := object{}
	for _, store := range s.disk.schedulerArgs["evict-leader-scheduler"] {
		ranges[store] = []object{{"start-key": "", "end-key": ""}}
	}
	return answer{body: object{"store-id-ranges": ranges}}
}

// RemoveScheduler removes one, as pd-ctl does: the config lists it as disabled.
func (s *Server) RemoveScheduler(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk.schedulers = slices.DeleteFunc(s.disk.schedulers, func(other string) bool { return other == name })
	s.disk.disabled = append(s.disk.disabled, name)
}

// schedulerConfigsLocked is schedule.schedulers-v2 of the config: a scheduler of stores has an entry for each.
func (s *Server) schedulerConfigsLocked() []object {
	entry := func(name string, args any, disable bool) object {
		kind := strings.TrimSuffix(name, "-scheduler")
		if name == hotRegion {
			kind = "hot-region"
		}
		return object{"type": kind, "args": args, "disable": disable, "args-payload": ""}
	}
	out := []object{}
	for _, name := range s.disk.schedulers {
		stores := s.disk.schedulerArgs[name]
		if len(stores) == 0 {
			out = append(out, entry(name, nil, false))
		}
		for _, store := range stores {
			out = append(out, entry(name, []string{store}, false))
		}
	}
	for _, name := range s.disk.disabled {
		if !slices.Contains(s.disk.schedulers, name) {
			out = append(out, entry(name, nil, true))
		}
	}
	return out
}
