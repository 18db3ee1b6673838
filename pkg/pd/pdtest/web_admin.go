package pdtest

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) adminRoutes() []route {
	const mark = api + "/admin/cluster/markers/snapshot-recovering"
	return []route{
		{"GET " + mark, named("Recovering"), false, s.getMark},
		{"POST " + mark, named("MarkRecovering"), false, s.setMark(true, "MarkRecovering")},
		{"DELETE " + mark, named("UnmarkRecovering"), false, s.setMark(false, "UnmarkRecovering")},
		{"POST " + api + "/admin/base-alloc-id", named("RaiseAllocID"), false, s.postBaseAllocID},
		{"POST " + api + "/admin/reset-ts", named("ResetTS"), false, s.postResetTS},
		{"GET " + api + "/gc/safepoint", named("SafePoints"), false, s.getSafePoints},
		{"DELETE " + api + "/gc/safepoint/{service}", named("DeleteSafePoint"), false, s.deleteSafePoint},
		{"GET " + api + "/min-resolved-ts", named("MinResolvedTS"), true, s.getMinResolved},
		{"GET " + api + "/min-resolved-ts/{store}", named("MinResolvedTS"), true, s.getMinResolvedOf},
	}
}

func (s *Server) getMark(*request) answer {
	return answer{body: map[string]bool{"marked": s.disk.recovering}}
}

func (s *Server) setMark(marked bool, call string) func(*request) answer {
	return func(*request) answer {
		s.disk.recovering = marked
		return answer{call: call}
	}
}

// postBaseAllocID takes the id as a string only, and lowers the allocator as readily as it raises it.
func (s *Server) postBaseAllocID(r *request) answer {
	if !s.disk.recovering {
		return answer{status: 403, body: rawText("can only recover alloc id when recovering mark marked")}
	}
	m, err := r.fields()
	if err != nil {
		return answer{status: 400, body: rawText(err.Error())}
	}
	text, ok := m["id"].(string)
	if !ok {
		return answer{status: 400, body: rawText("invalid id value")}
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return answer{status: 400, body: rawText(err.Error())}
	}
	s.setAllocBaseLocked(id)
	return answer{call: "RaiseAllocID " + text}
}

func (s *Server) postResetTS(r *request) answer {
	m, err := r.fields()
	if err != nil {
		return refuse(400, err.Error())
	}
	text, ok := m["tso"].(string)
	if !ok {
		return refuse(400, "invalid tso value")
	}
	ts, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return refuse(400, "invalid tso value")
	}
	force, ok := m["force-use-larger"].(bool)
	if _, given := m["force-use-larger"]; given && !ok {
		return refuse(400, "invalid force-use-larger value")
	}
	if refusal := s.resetTSLocked(ts, force); refusal != "" {
		return refuse(403, refusal)
	}
	return answer{body: "Reset ts successfully.", call: "ResetTS " + text}
}

func (s *Server) getSafePoints(*request) answer {
	type service struct {
		ID        string `json:"service_id"`
		ExpiredAt int64  `json:"expired_at"`
		SafePoint uint64 `json:"safe_point"`
	}
	points := s.servicesLocked() // before anybody has set one, there is none: not even gc_worker's
	list := make([]service, 0, len(points))
	for _, id := range sortedKeys(points) {
		list = append(list, service{ID: id, ExpiredAt: points[id].expiredAt, SafePoint: points[id].ts})
	}
	return answer{body: struct {
		Services []service `json:"service_gc_safe_points"`
		GC       uint64    `json:"gc_safe_point"`
	}{list, s.disk.gcSafePoint}}
}

func (s *Server) deleteSafePoint(r *request) answer {
	service := r.PathValue("service")
	if service == gcWorker {
		return refuse(500, "cannot remove service safe point of gc_worker")
	}
	delete(s.disk.services, service)
	return answer{body: "Delete service GC safepoint successfully.", call: "DeleteSafePoint " + service}
}

// minResolved is the answer's shape; the stores are null unless a scope was asked for.
type minResolved struct {
	RealTime bool              `json:"is_real_time"`
	TS       uint64            `json:"min_resolved_ts"`
	Interval string            `json:"persist_interval"`
	Stores   map[string]uint64 `json:"stores_min_resolved_ts"`
}

func (s *Server) minResolvedAnswer(ts uint64) minResolved {
	interval := s.durationConfigLocked("pd-server.min-resolved-ts-persistence-interval")
	return minResolved{RealTime: interval != 0, TS: ts, Interval: interval.String()}
}

func (s *Server) getMinResolved(r *request) answer {
	body := s.minResolvedAnswer(s.minResolvedLocked())
	scope := r.URL.Query().Get("scope")
	if scope == "" || !s.cfg.since(scopeSince) {
		return answer{body: body}
	}
	var ids []uint64
	if scope == "cluster" {
		ids = sortedIDs(s.disk.stores)
	} else {
		for _, text := range strings.Split(scope, ",") {
			id, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return refuse(400, err.Error())
			}
			ids = append(ids, id)
		}
	}
	body.Stores = map[string]uint64{}
	lowest := uint64(math.MaxUint64)
	for _, id := range slices.Compact(ids) {
		ts := s.storeResolvedLocked(id)
		body.Stores[decimal(id)] = ts
		lowest = min(lowest, ts)
	}
	if scope != "cluster" {
		body.TS = lowest
	}
	return answer{body: body}
}

func (s *Server) getMinResolvedOf(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("store"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	return answer{body: s.minResolvedAnswer(s.storeResolvedLocked(id))}
}
