package pdtest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/pingcap/kvproto/pkg/metapb"
)

func (s *Server) topologyRoutes() []route {
	regions := named("Regions")
	return []route{
		{"GET " + api + "/stores", named("Stores"), true, s.getStores},
		{"GET " + api + "/store/{id}", named("Store"), true, s.getStore},
		{"POST " + api + "/store/{id}/label", named("SetStoreLabels"), true, s.postStoreLabels},
		{"GET " + api + "/regions", regions, true, func(*request) answer { return s.regionList(s.disk.regions.scan(nil, nil, 0)) }},
		{"GET " + api + "/regions/count", regions, true, s.getRegionCount},
		{"GET " + api + "/regions/key", regions, true, s.getRegionsByKey},
		{"GET " + api + "/regions/store/{id}", regions, true, s.getRegionsOfStore},
		{"GET " + api + "/regions/check/{state}", regions, true, s.getRegionsInState},
		{"GET " + api + "/region/id/{id}", named("Region"), true, s.getRegionByID},
		{"GET " + api + "/region/key/{key}", named("Region"), true, s.getRegionByKey},
	}
}

func (s *Server) getStores(r *request) answer {
	wanted := r.URL.Query()["state"]
	if len(wanted) == 0 {
		wanted = []string{"0", "1"} // tombstones only when asked for
	}
	list := []any{}
	for _, store := range s.storesLocked() {
		if slices.Contains(wanted, strconv.Itoa(int(store.GetState()))) {
			list = append(list, s.storeInfo(store))
		}
	}
	return answer{body: map[string]any{"count": len(list), "stores": list}}
}

func (s *Server) getStore(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	store := s.disk.stores[id]
	if store == nil {
		return refuse(404, fmt.Sprintf("[PD:core:ErrStoreNotFound]store %d not found", id))
	}
	return answer{body: s.storeInfo(store)}
}

// postStoreLabels sets labels of a store; others stay.
func (s *Server) postStoreLabels(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	labels := map[string]string{}
	if err := json.Unmarshal(r.body, &labels); err != nil {
		return refuse(400, err.Error())
	}
	old := s.disk.stores[id]
	if old == nil {
		return refuse(404, fmt.Sprintf("[PD:core:ErrStoreNotFound]store %d not found", id))
	}
	store := *old
	store.Labels = slices.DeleteFunc(slices.Clone(old.GetLabels()), func(l *metapb.StoreLabel) bool {
		_, changed := labels[l.GetKey()]
		return changed
	})
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		store.Labels = append(store.Labels, &metapb.StoreLabel{Key: key, Value: labels[key]})
	}
	s.disk.stores[id] = &store
	return answer{body: "The store's label is updated.", call: "SetStoreLabels " + decimal(id)}
}

type storeMeta struct {
	ID            uint64       `json:"id"`
	Address       string       `json:"address"`
	Labels        []storeLabel `json:"labels,omitempty"`
	Version       string       `json:"version"`
	StatusAddress string       `json:"status_address,omitempty"`
	StartedAt     int64        `json:"start_timestamp,omitempty"`
	LastHeartbeat int64        `json:"last_heartbeat,omitempty"`
	State         int          `json:"state,omitempty"`
	StateName     string       `json:"state_name"`
}

type storeLabel struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type storeStatus struct {
	Capacity      string     `json:"capacity"`
	Available     string     `json:"available"`
	Used          string     `json:"used_size"`
	Leaders       int        `json:"leader_count"`
	LeaderWeight  float64    `json:"leader_weight"`
	LeaderScore   float64    `json:"leader_score"`
	LeaderSize    int        `json:"leader_size"`
	Regions       int        `json:"region_count"`
	RegionWeight  float64    `json:"region_weight"`
	RegionScore   float64    `json:"region_score"`
	RegionSize    int        `json:"region_size"`
	StartedAt     *time.Time `json:"start_ts,omitempty"`
	LastHeartbeat *time.Time `json:"last_heartbeat_ts,omitempty"`
	Uptime        string     `json:"uptime,omitempty"`
}

func (s *Server) storeInfo(store *metapb.Store) any {
	id := store.GetId()
	leaders, regions := s.disk.regions.leaders, s.disk.regions.peers
	meta := storeMeta{
		ID: id, Address: store.GetAddress(), Version: store.GetVersion(), StatusAddress: store.GetStatusAddress(),
		StartedAt: store.GetStartTimestamp(), LastHeartbeat: store.GetLastHeartbeat(),
		State: int(store.GetState()), StateName: s.stateName(store),
	}
	for _, l := range store.GetLabels() {
		meta.Labels = append(meta.Labels, storeLabel{Key: l.GetKey(), Value: l.GetValue()})
	}
	stats := s.mem.storeStats(id).stats
	status := storeStatus{
		Capacity: size(stats.GetCapacity()), Available: size(stats.GetAvailable()), Used: size(stats.GetUsedSize()),
		Leaders: leaders[id], LeaderWeight: 1, LeaderScore: float64(leaders[id]), LeaderSize: leaders[id],
		Regions: regions[id], RegionWeight: 1, RegionScore: float64(regions[id]), RegionSize: regions[id],
	}
	if store.GetStartTimestamp() > 0 {
		at := time.Unix(store.GetStartTimestamp(), 0).UTC()
		status.StartedAt = &at
	}
	if store.GetLastHeartbeat() > 0 {
		at := time.Unix(0, store.GetLastHeartbeat()).UTC()
		status.LastHeartbeat = &at
		status.Uptime = at.Sub(time.Unix(store.GetStartTimestamp(), 0)).String()
	}
	return map[string]any{"store": meta, "status": status}
}

// size prints bytes as PD does: "100GiB", no space.
func size(bytes uint64) string {
	return strings.ReplaceAll(strings.ReplaceAll(humanize.IBytes(bytes), " ", ""), ".0", "")
}

type regionInfo struct {
	ID       uint64     `json:"id"`
	StartKey string     `json:"start_key"`
	EndKey   string     `json:"end_key"`
	Epoch    epochInfo  `json:"epoch"`
	Peers    []peerInfo `json:"peers"`
	Leader   peerInfo   `json:"leader"`
	Down     []downInfo `json:"down_peers,omitempty"`
	Pending  []peerInfo `json:"pending_peers,omitempty"`
	CPU      uint64     `json:"cpu_usage"`
	Written  uint64     `json:"written_bytes"`
	Read     uint64     `json:"read_bytes"`
	WroteKs  uint64     `json:"written_keys"`
	ReadKs   uint64     `json:"read_keys"`
	SizeMiB  uint64     `json:"approximate_size"`
	Keys     uint64     `json:"approximate_keys"`
}

type epochInfo struct {
	ConfVer uint64 `json:"conf_ver"`
	Version uint64 `json:"version"`
}

type peerInfo struct {
	Role    string `json:"role_name"`
	ID      uint64 `json:"id,omitempty"`
	Store   uint64 `json:"store_id,omitempty"`
	Learner bool   `json:"is_learner,omitempty"`
}

type downInfo struct {
	Seconds uint64   `json:"down_seconds"`
	Peer    peerInfo `json:"peer"`
}

func peer(p *metapb.Peer) peerInfo {
	return peerInfo{
		Role: p.GetRole().String(), ID: p.GetId(), Store: p.GetStoreId(), Learner: p.GetRole() == metapb.PeerRole_Learner,
	}
}

func (r *region) info() regionInfo {
	e := r.meta.GetRegionEpoch()
	info := regionInfo{
		ID: r.meta.GetId(), StartKey: hexKey(r.meta.GetStartKey()), EndKey: hexKey(r.meta.GetEndKey()),
		Epoch: epochInfo{ConfVer: e.GetConfVer(), Version: e.GetVersion()}, Leader: peer(r.leader),
		SizeMiB: r.sizeMiB, Keys: r.keys,
	}
	for _, p := range r.meta.GetPeers() {
		info.Peers = append(info.Peers, peer(p))
	}
	for _, p := range r.pending {
		info.Pending = append(info.Pending, peer(p))
	}
	for _, d := range r.down {
		info.Down = append(info.Down, downInfo{Seconds: d.GetDownSeconds(), Peer: peer(d.GetPeer())})
	}
	return info
}

func hexKey(key []byte) string { return strings.ToUpper(hex.EncodeToString(key)) }

func (s *Server) regionList(regions []*region) answer {
	list := make([]regionInfo, 0, len(regions))
	for _, r := range regions {
		list = append(list, r.info())
	}
	return answer{compact: true, body: struct {
		Count   int          `json:"count"`
		Regions []regionInfo `json:"regions"`
	}{len(list), list}}
}

func (s *Server) getRegionCount(*request) answer {
	return answer{body: map[string]any{"count": len(s.disk.regions.byID), "regions": nil}}
}

func (s *Server) getRegionsByKey(r *request) answer {
	q := r.URL.Query()
	limit := 16 // PD's default
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return refuse(400, err.Error())
		}
		limit = n
	}
	return s.regionList(s.disk.regions.scan([]byte(q.Get("key")), []byte(q.Get("end_key")), max(limit, 0)))
}

func (s *Server) getRegionsOfStore(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	return s.regionList(slices.DeleteFunc(s.disk.regions.scan(nil, nil, 0), func(r *region) bool {
		return !slices.ContainsFunc(r.meta.GetPeers(), func(p *metapb.Peer) bool { return p.GetStoreId() == id })
	}))
}

func (s *Server) getRegionsInState(r *request) answer {
	replicas := int(s.numberConfigLocked("replication.max-replicas"))
	in := map[string]func(*region) bool{
		"miss-peer":    func(r *region) bool { return len(r.meta.GetPeers()) < replicas },
		"extra-peer":   func(r *region) bool { return len(r.meta.GetPeers()) > replicas },
		"down-peer":    func(r *region) bool { return len(r.down) > 0 },
		"pending-peer": func(r *region) bool { return len(r.pending) > 0 },
		"learner-peer": func(r *region) bool {
			return slices.ContainsFunc(r.meta.GetPeers(), func(p *metapb.Peer) bool { return p.GetRole() == metapb.PeerRole_Learner })
		},
		"empty-region": func(r *region) bool { return r.sizeMiB <= 1 },
	}[r.PathValue("state")]
	if in == nil {
		return answer{status: 404, body: rawText("404 page not found\n")}
	}
	return s.regionList(slices.DeleteFunc(s.disk.regions.scan(nil, nil, 0), func(r *region) bool { return !in(r) }))
}

func (s *Server) getRegionByID(r *request) answer {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return refuse(400, err.Error())
	}
	return regionOrNull(s.disk.regions.byID[id])
}

func (s *Server) getRegionByKey(r *request) answer {
	key, err := url.QueryUnescape(r.PathValue("key"))
	if err != nil {
		return refuse(400, err.Error())
	}
	return regionOrNull(s.disk.regions.at([]byte(key)))
}

// regionOrNull is PD's answer about an unknown region: 200 and null.
func regionOrNull(r *region) answer {
	if r == nil {
		return answer{compact: true, body: (*regionInfo)(nil)}
	}
	return answer{compact: true, body: r.info()}
}
