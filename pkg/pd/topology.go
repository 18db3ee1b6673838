package pd

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/pd/client/clients/router"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/saturate"
	"github.com/tisnap/tisnap/pkg/wait"
)

// regionPage is the number of regions per call: some 300 bytes each, well below gRPC's 4 MiB.
const regionPage = 2048

// ClusterID is PD's cluster id, read when the client was opened.
func (c *Client) ClusterID(ctx context.Context) (uint64, error) { return c.rpc.GetClusterID(ctx), nil }

// Version reads the cluster version that PD agreed on, "8.5.0". Before bootstrap it is whatever PD returns.
func (c *Client) Version(ctx context.Context) (string, error) {
	var version string
	err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/config/cluster-version", nil, &version, mayRepeat)
	return version, translate(ctx, err, "read cluster version", "")
}

// storeList is the answer of GET stores.
type storeList struct {
	Stores []struct {
		Store struct {
			ID        uint64 `json:"id"`
			Address   string `json:"address"`
			Status    string `json:"status_address"`
			Version   string `json:"version"`
			StartedAt int64  `json:"start_timestamp"`
			StateName string `json:"state_name"`
			Labels    []struct {
				Key   string `json:"key"`
				Value string `json:"value"`
			} `json:"labels"`
		} `json:"store"`
		Status struct {
			Leaders int `json:"leader_count"`
			Regions int `json:"region_count"`
		} `json:"status"`
	} `json:"stores"`
}

// Stores lists all stores, tombstones included, over HTTP: gRPC has neither Disconnected nor Down.
// A cluster that was never bootstrapped is Unready.
func (c *Client) Stores(ctx context.Context) ([]Store, error) {
	var list storeList
	err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/stores?state=0&state=1&state=2", nil, &list, mayRepeat)
	if err != nil {
		return nil, translate(ctx, err, "list stores", "")
	}
	stores := make([]Store, 0, len(list.Stores))
	for _, s := range list.Stores {
		store := Store{
			ID: cluster.StoreID(s.Store.ID), Address: s.Store.Address, StatusAddress: s.Store.Status,
			State:   StoreState(s.Store.StateName),
			Version: s.Store.Version, Labels: map[string]string{}, Leaders: s.Status.Leaders, Regions: s.Status.Regions,
		}
		if s.Store.StartedAt > 0 {
			store.StartedAt = time.Unix(s.Store.StartedAt, 0).UTC()
		}
		for _, l := range s.Store.Labels {
			store.Labels[l.Key] = l.Value
		}
		stores = append(stores, store)
	}
	return stores, nil
}

// Regions lists the regions that intersect keys in key order, including those without a leader. PD may change
// between two pages, so the caller must check for holes and overlaps. A PD that does not answer for 10 s is Limited.
func (c *Client) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	const op = "list regions"
	var regions []cluster.Region
	for key := keys.Start; ; {
		page, err := c.scanRegions(ctx, key, keys.End)
		if err != nil {
			return nil, translate(ctx, err, op, keys.String())
		}
		for _, r := range page {
			regions = append(regions, regionOf(r))
		}
		if len(page) == 0 {
			return regions, nil
		}
		next := page[len(page)-1].Meta.GetEndKey()
		if len(next) == 0 || len(keys.End) > 0 && bytes.Compare(next, keys.End) >= 0 {
			return regions, nil
		}
		if bytes.Compare(next, key) <= 0 {
			return nil, failure.New(failure.Corrupt, op, keys.String(), "page after %X ends at %X", key, next)
		}
		key = next
	}
}

// scanRegions reads one page of regions.
func (c *Client) scanRegions(ctx context.Context, from, to []byte) ([]*router.Region, error) {
	ctx, cancel := context.WithTimeout(ctx, c.page)
	defer cancel()
	return c.rpc.ScanRegions(ctx, from, to, regionPage) //nolint:staticcheck // PD 7.5 has no BatchScanRegions
}

func regionOf(r *router.Region) cluster.Region {
	region := cluster.Region{
		ID:      cluster.RegionID(r.Meta.GetId()),
		Keys:    cluster.KeyRange{Start: r.Meta.GetStartKey(), End: r.Meta.GetEndKey()},
		ConfVer: r.Meta.GetRegionEpoch().GetConfVer(), Version: r.Meta.GetRegionEpoch().GetVersion(),
	}
	for _, p := range r.Meta.GetPeers() {
		region.Peers = append(region.Peers, peerOf(p))
		region.Joint = region.Joint || p.GetRole() == metapb.PeerRole_IncomingVoter ||
			p.GetRole() == metapb.PeerRole_DemotingVoter
	}
	if r.Leader.GetId() != 0 {
		region.Leader = peerOf(r.Leader)
	}
	for _, p := range r.PendingPeers {
		region.Pending = append(region.Pending, cluster.PeerID(p.GetId()))
	}
	for _, p := range r.DownPeers {
		region.DownPeer = append(region.DownPeer, cluster.PeerID(p.GetId()))
	}
	return region
}

func peerOf(p *metapb.Peer) cluster.Peer {
	return cluster.Peer{
		ID: cluster.PeerID(p.GetId()), Store: cluster.StoreID(p.GetStoreId()),
		Learner: p.GetRole() == metapb.PeerRole_Learner, Witness: p.GetIsWitness(),
	}
}

// Now takes a fresh timestamp.
func (c *Client) Now(ctx context.Context) (cluster.TS, error) {
	for try := 1; ; try++ {
		physical, logical, err := c.rpc.GetTS(ctx)
		if err == nil {
			return cluster.MakeTS(time.UnixMilli(physical), saturate.To[uint32](logical)), nil
		}
		// pd/client cancels requests in flight when it reopens its stream, at the start and after a change of
		// leader. An unused timestamp is harmless.
		ended := errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
		if !ended || ctx.Err() != nil || try == timestampTries {
			return 0, translate(ctx, err, "take timestamp", "")
		}
		_ = wait.For(ctx, timestampPause) // the next try sees that ctx has ended
	}
}

// These bound the requests for one timestamp.
const (
	timestampTries = 10
	timestampPause = 20 * time.Millisecond
)

// ResolvedTS reads the minimum resolved ts. Stores omits stores that do not count (tombstones, TiFlash, those
// without leaders); a store that leads regions but has not reported has 0. A PD that does not support the scope is
// queried once per store.
func (c *Client) ResolvedTS(ctx context.Context) (ResolvedTS, error) {
	const op = "read resolved ts"
	var answer struct {
		RealTime bool              `json:"is_real_time"`
		TS       uint64            `json:"min_resolved_ts"`
		Interval string            `json:"persist_interval"`
		Stores   map[string]uint64 `json:"stores_min_resolved_ts"`
	}
	err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/min-resolved-ts?scope=cluster", nil, &answer, mayRepeat)
	if err != nil {
		return ResolvedTS{}, translate(ctx, err, op, "")
	}
	resolved := ResolvedTS{RealTime: answer.RealTime, Stores: map[cluster.StoreID]cluster.TS{}}
	if answer.TS != doesNotCount {
		resolved.TS = cluster.TS(answer.TS)
	}
	if answer.Interval != "" {
		if resolved.Interval, err = time.ParseDuration(answer.Interval); err != nil {
			return ResolvedTS{}, failure.Wrap(err, failure.Unknown, op, "")
		}
	}
	if answer.Stores == nil {
		resolved.Stores, err = c.resolvedByStore(ctx)
		return resolved, err
	}
	for text, ts := range answer.Stores {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return ResolvedTS{}, failure.Wrap(err, failure.Unknown, op, "store "+text)
		}
		if ts != doesNotCount {
			resolved.Stores[cluster.StoreID(id)] = cluster.TS(ts)
		}
	}
	return resolved, nil
}

// doesNotCount is PD's resolved ts for a store that does not count or does not exist.
const doesNotCount = math.MaxUint64

// maxAsked bounds concurrent calls for the resolved ts of single stores.
const maxAsked = 16

// resolvedByStore queries each store that may count.
func (c *Client) resolvedByStore(ctx context.Context) (map[cluster.StoreID]cluster.TS, error) {
	stores, err := c.Stores(ctx)
	if err != nil {
		return nil, err
	}
	stores = slices.DeleteFunc(stores, func(s Store) bool { return s.State == StoreTombstone || !s.IsTiKV() })
	all := make([]uint64, len(stores))
	err = parallel.Each(ctx, maxAsked, stores, func(ctx context.Context, i int, s Store) error {
		var answer struct {
			TS uint64 `json:"min_resolved_ts"`
		}
		err := c.rest.call(ctx, http.MethodGet, apiPrefix+"/min-resolved-ts/"+s.ID.String(), nil, &answer, mayRepeat)
		all[i] = answer.TS
		return translate(ctx, err, "read resolved ts", "store "+s.ID.String())
	})
	if err != nil {
		return nil, err
	}
	found := map[cluster.StoreID]cluster.TS{}
	for i, s := range stores {
		if all[i] != doesNotCount {
			found[s.ID] = cluster.TS(all[i])
		}
	}
	return found, nil
}
