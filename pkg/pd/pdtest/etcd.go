package pdtest

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// etcdServer is as much of etcd's KV service as TiDB's clients use: reading keys and putting some.
type etcdServer struct {
	etcdserverpb.UnimplementedKVServer
	server *Server
}

// Range lists keys.
func (e *etcdServer) Range(_ context.Context, req *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: s.disk.clusterID, Revision: 1}}
	for _, p := range s.etcdLocked(req.GetKey(), req.GetRangeEnd()) {
		answer.Kvs = append(answer.Kvs, &mvccpb.KeyValue{
			Key: []byte(p.key), Value: []byte(p.value), Lease: p.lease, Version: 1, CreateRevision: 1, ModRevision: 1,
		})
	}
	answer.Count = int64(len(answer.Kvs))
	return answer, nil
}

// Put sets a key.
func (e *etcdServer) Put(_ context.Context, req *etcdserverpb.PutRequest) (*etcdserverpb.PutResponse, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcdSetLocked(string(req.GetKey()), string(req.GetValue()))
	return &etcdserverpb.PutResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: s.disk.clusterID, Revision: 1}}, nil
}

// etcdCluster is etcd's list of members; its clients synchronise their endpoints with it.
type etcdCluster struct {
	etcdserverpb.UnimplementedClusterServer
	server *Server
}

// MemberList lists PD's members.
func (e *etcdCluster) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: s.disk.clusterID}}
	for _, m := range s.members {
		answer.Members = append(answer.Members, &etcdserverpb.Member{ID: m.id(), Name: m.name(), ClientURLs: []string{m.url()}})
	}
	return answer, nil
}

// etcdKV is a pair as etcd's JSON gateway prints it: bytes in base64, 64-bit numbers as strings.
type etcdKV struct {
	Key            []byte `json:"key"`
	CreateRevision int64  `json:"create_revision,string"`
	ModRevision    int64  `json:"mod_revision,string"`
	Version        int64  `json:"version,string"`
	Value          []byte `json:"value"`
	Lease          int64  `json:"lease,string,omitempty"`
}

func (s *Server) etcdRange(r *request) answer {
	var req struct {
		Key      []byte `json:"key"`
		RangeEnd []byte `json:"range_end"`
	}
	if err := json.Unmarshal(r.body, &req); err != nil {
		return answer{status: 400, body: map[string]any{"error": err.Error(), "code": 3, "message": err.Error()}}
	}
	kvs := []etcdKV{}
	for _, p := range s.etcdLocked(req.Key, req.RangeEnd) {
		kvs = append(kvs, etcdKV{Key: []byte(p.key), CreateRevision: p.revision, ModRevision: p.revision, Version: 1, Value: []byte(p.value), Lease: p.lease})
	}
	body := map[string]any{"header": map[string]string{
		"cluster_id": decimal(s.disk.clusterID), "member_id": "1", "revision": decimal(uint64(s.disk.revision)), "raft_term": "2",
	}}
	if len(kvs) > 0 {
		body["kvs"], body["count"] = kvs, decimal(uint64(len(kvs)))
	}
	return answer{body: body, compact: true}
}

// etcdPoint distinguishes a read of PD's own overrides from one of others' keys.
func etcdPoint(r *request) string {
	var req struct {
		Key []byte `json:"key"`
	}
	if json.Unmarshal(r.body, &req) == nil && strings.HasPrefix(string(req.Key), ttlPrefix) {
		return "pd.TTLConfig"
	}
	return "pd.EtcdRange"
}

func (s *Server) etcdPut(r *request) answer {
	var req struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}
	if err := json.Unmarshal(r.body, &req); err != nil || len(req.Key) == 0 {
		return answer{status: 400, body: map[string]any{"error": "etcdserver: key is not provided", "code": 3, "message": "etcdserver: key is not provided"}}
	}
	s.etcdSetLocked(string(req.Key), string(req.Value))
	return answer{body: map[string]any{"header": map[string]string{
		"cluster_id": decimal(s.disk.clusterID), "member_id": "1", "revision": decimal(uint64(s.disk.revision)), "raft_term": "2",
	}}, compact: true, call: "EtcdPut " + string(req.Key)}
}

// etcdTxn carries out one change of one key if the key is of the compared revision: as much of etcd's transactions as tisnap
// uses. As etcd's gateway does, it leaves "succeeded" out where it is false.
func (s *Server) etcdTxn(r *request) answer {
	var req struct {
		Compare []struct {
			Key         []byte `json:"key"`
			Target      string `json:"target"`
			Result      string `json:"result"`
			ModRevision int64  `json:"mod_revision,string"`
		} `json:"compare"`
		Success []struct {
			Put *struct {
				Key   []byte `json:"key"`
				Value []byte `json:"value"`
			} `json:"request_put"`
			Delete *struct {
				Key []byte `json:"key"`
			} `json:"request_delete_range"`
		} `json:"success"`
	}
	if err := json.Unmarshal(r.body, &req); err != nil {
		return answer{status: 400, body: map[string]any{"error": err.Error(), "code": 3, "message": err.Error()}}
	}
	if len(req.Compare) != 1 || len(req.Success) != 1 || req.Compare[0].Target != "MOD" || req.Compare[0].Result != "EQUAL" {
		return answer{status: 501, body: "the stand-in does not have this transaction"}
	}
	compare, change := req.Compare[0], req.Success[0]
	body := map[string]any{}
	if s.disk.kv[string(compare.Key)].revision == compare.ModRevision {
		body["succeeded"] = true
		switch {
		case change.Put != nil:
			s.etcdSetLocked(string(change.Put.Key), string(change.Put.Value))
		case change.Delete != nil:
			s.disk.revision++
			delete(s.disk.kv, string(change.Delete.Key))
		}
	}
	body["header"] = map[string]string{
		"cluster_id": decimal(s.disk.clusterID), "member_id": "1", "revision": decimal(uint64(s.disk.revision)), "raft_term": "2",
	}
	return answer{body: body, compact: true, call: "EtcdTxn " + string(compare.Key)}
}

// etcdValue is what a key was set to, and the revision of that.
type etcdValue struct {
	text     string
	revision int64
}

func (s *Server) etcdSetLocked(key, value string) {
	s.disk.revision++
	s.disk.kv[key] = etcdValue{value, s.disk.revision}
}

// etcdLease answers how long a lease has left, as etcd's gateway does: whole seconds, -1 for one that is not there.
func (s *Server) etcdLease(r *request) answer {
	var req struct {
		ID int64 `json:"ID,string"`
	}
	if err := json.Unmarshal(r.body, &req); err != nil {
		return answer{status: 400, body: map[string]any{"error": err.Error(), "code": 3, "message": err.Error()}}
	}
	left := int64(-1)
	for _, t := range s.ttlLocked() {
		if t.lease == req.ID {
			left = int64(t.expires.Sub(s.now()) / time.Second)
		}
	}
	return answer{body: map[string]any{"ID": strconv.FormatInt(req.ID, 10), "TTL": strconv.FormatInt(left, 10)}, compact: true}
}

// SetEtcd puts a key into PD's etcd, as br, TiCDC and TiDB do.
func (s *Server) SetEtcd(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcdSetLocked(key, value)
}

// Etcd is the value of a key that someone put into PD's etcd; ok is false if there is none.
func (s *Server) Etcd(key string) (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.disk.kv[key]
	return v.text, ok
}

// metaServer is PD's view of etcd for its micro-services, of which there are none. pd/client looks there when
// it is opened, and waits for seconds if the service is missing.
type metaServer struct {
	meta_storagepb.UnimplementedMetaStorageServer
	server *Server
}

// Get finds nothing.
func (m *metaServer) Get(context.Context, *meta_storagepb.GetRequest) (*meta_storagepb.GetResponse, error) {
	return &meta_storagepb.GetResponse{Header: &meta_storagepb.ResponseHeader{ClusterId: m.server.disk.clusterID, Revision: 1}}, nil
}
