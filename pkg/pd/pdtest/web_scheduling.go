package pdtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

func (s *Server) schedulingRoutes() []route {
	return []route{
		{"GET " + api + "/schedulers", named("Schedulers"), true, s.getSchedulers},
		{"POST " + api + "/schedulers", named("AddScheduler"), true, s.addScheduler},
		{"POST " + api + "/schedulers/{name}", pausePoint, true, s.postScheduler},
		{"DELETE " + api + "/schedulers/{name}", named("RemoveScheduler"), true, s.deleteScheduler},
		{"GET " + api + "/scheduler-config/evict-leader-scheduler/list", named("Schedulers"), true, s.getEvicted},
		{"GET " + api + "/operators", named("Operators"), true, s.getOperators},
		{"GET " + api + "/operators/{id}", named("Operators"), true, s.getOperator},
		{"POST " + api + "/operators", named("AddOperator"), true, s.postOperator},
		{"DELETE " + api + "/operators", named("DropOperators"), true, s.deleteOperators},
		{"DELETE " + api + "/operators/{id}", named("DropOperators"), true, s.deleteOperator},
		{"GET " + api + "/config", named("Config"), false, s.getConfig},
		{"POST " + api + "/config", configPoint, false, s.postConfig},
		{"GET " + api + "/config/schedule", named("Config"), false, s.getConfigOf("schedule")},
		{"POST " + api + "/config/schedule", named("SetConfig"), false, s.postConfigOf("schedule")},
		{"GET " + api + "/config/replicate", named("Config"), false, s.getConfigOf("replication")},
		{"POST " + api + "/config/replicate", named("SetConfig"), false, s.postConfigOf("replication")},
		{"GET " + api + "/config/cluster-version", named("ClusterVersion"), false, s.getClusterVersion},
		{"POST /v3/kv/range", etcdPoint, false, s.etcdRange},
		{"POST /v3/lease/timetolive", named("LeaseTTL"), false, s.etcdLease},
		{"POST /v3/kv/put", named("EtcdPut"), false, s.etcdPut},
		{"POST /v3/kv/txn", named("EtcdTxn"), false, s.etcdTxn},
	}
}

func (s *Server) getSchedulers(r *request) answer {
	all := s.schedulersLocked()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // PD walks over a map
	if r.URL.Query().Get("status") != "paused" {
		names := []string{}
		for _, sch := range all {
			names = append(names, sch.Name)
		}
		return answer{body: names}
	}
	type paused struct {
		Name     string    `json:"name"`
		PausedAt time.Time `json:"paused_at"`
		ResumeAt time.Time `json:"resume_at"`
	}
	names, periods := []string{}, []paused{}
	for _, sch := range all {
		if sch.ResumeAt.IsZero() {
			continue
		}
		names = append(names, sch.Name)
		// PD prints whole seconds.
		periods = append(periods, paused{
			Name: sch.Name, PausedAt: sch.PausedAt.UTC().Truncate(time.Second), ResumeAt: sch.ResumeAt.UTC().Truncate(time.Second),
		})
	}
	if r.URL.Query().Get("timestamp") == "true" {
		return answer{body: periods}
	}
	return answer{body: names}
}

func pausePoint(r *request) string {
	if m, err := r.fields(); err == nil {
		if delay, ok := m["delay"].(float64); ok && delay <= 0 {
			return "pd.ResumeScheduler"
		}
	}
	return "pd.PauseScheduler"
}

func (s *Server) postScheduler(r *request) answer {
	m, err := r.fields()
	if err != nil {
		return refuse(400, err.Error())
	}
	delay, ok := m["delay"].(float64)
	if !ok {
		return refuse(400, "missing pause time")
	}
	name := r.PathValue("name")
	if refusal := s.pauseLocked(name, time.Duration(delay)*time.Second); refusal != "" {
		return refuse(500, refusal)
	}
	return answer{
		body: "Pause or resume the scheduler successfully.",
		call: strings.TrimPrefix(pausePoint(r), "pd.") + " " + name,
	}
}

func (s *Server) getOperators(*request) answer {
	texts := []string{}
	for _, op := range s.allRunningLocked() {
		texts = append(texts, op.String())
	}
	return answer{body: texts}
}

func (s *Server) getOperator(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	s.runningLocked(id)
	op := s.mem.operators[id]
	if op == nil {
		return refuse(500, "[PD:operator:ErrOperatorNotFound]operator not found")
	}
	return answer{body: fmt.Sprintf("status: %s, operator: %s", op.status, op)}
}

func (s *Server) postOperator(r *request) answer {
	m, err := r.fields()
	if err != nil {
		return refuse(400, err.Error())
	}
	name, ok := m["name"].(string)
	if !ok {
		return refuse(400, "missing operator name")
	}
	id, ok := m["region_id"].(float64)
	if !ok {
		return refuse(400, "missing region id")
	}
	to, ok := m["to_store_id"].(float64)
	if !ok && name == "transfer-leader" {
		return refuse(400, "missing store id to transfer leader to")
	}
	if name == "remove-peer" {
		if to, ok = m["store_id"].(float64); !ok {
			return refuse(400, "invalid store id to transfer peer to")
		}
	}
	if status, refusal := s.addOperatorLocked(name, uint64(id), uint64(to)); refusal != "" {
		return refuse(status, refusal)
	}
	return answer{body: "The operator is created.", call: "AddOperator " + name + " " + decimal(uint64(id))}
}

func (s *Server) deleteOperators(*request) answer {
	clear(s.mem.operators)
	clear(s.mem.running)
	return answer{body: "All pending operators are canceled.", call: "DropOperators"}
}

func (s *Server) deleteOperator(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	if s.runningLocked(id) == nil {
		return refuse(500, "[PD:operator:ErrOperatorNotFound]operator not found")
	}
	delete(s.mem.operators, id)
	delete(s.mem.running, id)
	return answer{body: "The pending operator is canceled.", call: "DropOperators " + decimal(id)}
}

func configPoint(r *request) string {
	switch ttl := r.URL.Query().Get("ttlSecond"); {
	case ttl == "":
		return "pd.SetConfig"
	case strings.HasPrefix(ttl, "-") || ttl == "0":
		return "pd.DropTTLConfig"
	}
	return "pd.SetTTLConfig"
}

func (s *Server) postConfig(r *request) answer {
	items, err := r.fields()
	if err != nil {
		return refuse(400, err.Error())
	}
	call := strings.TrimPrefix(configPoint(r), "pd.") + " " + strings.Join(sortedKeys(items), ",")
	ttl := r.URL.Query().Get("ttlSecond")
	if ttl == "" {
		if refusal := s.setConfigLocked(items); refusal != "" {
			return refuse(400, refusal)
		}
		return answer{body: "The config is updated.", call: call}
	}
	seconds, err := strconv.Atoi(ttl)
	if err != nil {
		return refuse(400, err.Error())
	}
	if refusal := s.setTTLLocked(items, time.Duration(seconds)*time.Second); refusal != "" {
		return refuse(400, refusal)
	}
	if seconds == 0 {
		return answer{body: "The ttl config is deleted.", call: call}
	}
	return answer{body: "The ttl config is updated.", call: call}
}

// sectionLocked is one section of the base config: overrides never show here.
func (s *Server) sectionLocked(section string) map[string]any {
	items := map[string]any{}
	for item, value := range s.disk.config {
		if name, found := strings.CutPrefix(item, section+"."); found {
			items[name] = value
		}
	}
	if section == "pd-server" && s.restarted {
		items["flow-round-by-digit"] = restartedDigits
	}
	return items
}

// restartedDigits is what a restarted PD answers for flow-round-by-digit, whatever it is set to.
const restartedDigits = 127

func (s *Server) getConfig(*request) answer {
	schedule := s.sectionLocked("schedule")
	schedule["schedulers-v2"] = s.schedulerConfigsLocked()
	return answer{body: map[string]any{
		"schedule":        schedule,
		"replication":     s.sectionLocked("replication"),
		"pd-server":       s.sectionLocked("pd-server"),
		"cluster-version": s.cfg.Version,
	}}
}

func (s *Server) getConfigOf(section string) func(*request) answer {
	return func(*request) answer { return answer{body: s.sectionLocked(section)} }
}

func (s *Server) postConfigOf(section string) func(*request) answer {
	return func(r *request) answer {
		fields, err := r.fields()
		if err != nil {
			return refuse(400, err.Error())
		}
		items := map[string]any{}
		for name, value := range fields {
			items[section+"."+name] = value
		}
		if refusal := s.setConfigLocked(items); refusal != "" {
			return refuse(400, refusal)
		}
		return answer{body: "The config is updated.", call: "SetConfig " + strings.Join(sortedKeys(items), ",")}
	}
}

// getClusterVersion: before bootstrap no store has agreed on one.
func (s *Server) getClusterVersion(*request) answer {
	if !s.disk.bootstrapped {
		return answer{body: "0.0.0"}
	}
	return answer{body: s.cfg.Version}
}
