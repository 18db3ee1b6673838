package pdtest

import "github.com/pingcap/kvproto/pkg/pdpb"

func (s *Server) memberRoutes() []route {
	return []route{
		{"GET " + api + "/members", named("Members"), false, s.getMembers},
		{"GET " + api + "/leader", named("Members"), false, func(*request) answer { return answer{body: s.members[s.leader].message()} }},
		{"GET " + api + "/health", named("Health"), false, s.getHealth},
		{"GET " + api + "/ping", named("Health"), false, func(*request) answer { return answer{} }},
		{"GET /pd/ping", named("Health"), false, func(*request) answer { return answer{} }},
		{"GET " + api + "/version", named("ClusterVersion"), false, func(*request) answer {
			return answer{body: map[string]string{"version": "v" + s.cfg.Version}}
		}},
		{"GET " + api + "/cluster", named("Members"), false, func(*request) answer {
			return answer{body: map[string]any{"id": s.disk.clusterID, "max_peer_count": s.disk.config["replication.max-replicas"]}}
		}},
		{"GET " + api + "/cluster/status", named("Members"), false, func(*request) answer {
			return answer{body: map[string]any{"is_initialized": s.coordinatorLocked(), "replication_status": "majority"}}
		}},
	}
}

func (s *Server) getMembers(*request) answer {
	var list []*pdpb.Member
	for _, m := range s.members {
		list = append(list, m.message())
	}
	return answer{body: map[string]any{
		"header": map[string]uint64{"cluster_id": s.disk.clusterID}, "members": list,
		"leader": s.members[s.leader].message(), "etcd_leader": s.members[s.leader].message(),
	}}
}

func (s *Server) getHealth(*request) answer {
	type health struct {
		Name   string   `json:"name"`
		ID     uint64   `json:"member_id"`
		URLs   []string `json:"client_urls"`
		Health bool     `json:"health"`
	}
	var list []health
	for _, m := range s.members {
		list = append(list, health{Name: m.name(), ID: m.id(), URLs: []string{m.url()}, Health: m.alive})
	}
	return answer{body: list}
}
