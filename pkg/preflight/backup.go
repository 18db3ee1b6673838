package preflight

import (
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
)

// DefaultPending is EC2's default limit of pending snapshots in an account and region (Amazon EBS quotas).
const DefaultPending = 100

// Limits are a backup's constraints.
type Limits struct {
	// TS are the rules for the resolved ts.
	TS TSRules
	// AwaitsTS means that the resolved ts is awaited later: here it only has to be reported.
	AwaitsTS bool
	// Pending is the account's limit of pending snapshots; zero is that of Service Quotas, else DefaultPending.
	Pending int
}

// EBS is the part of EC2 that preflight uses.
type EBS interface {
	ebs.Volumes
	ebs.Account
	ebs.Keys
}

// PD is the part of the placement driver that preflight uses.
type PD interface {
	pd.Members
	SafePoints(ctx context.Context) (services []pd.SafePoint, gc cluster.TS, err error)
}

// Source is a cluster fit for backup, with the objects that a restore needs.
type Source struct {
	Topology    cluster.Topology  `json:"topology"`
	TidbCluster json.RawMessage   `json:"tidbCluster,omitempty"`
	Objects     []json.RawMessage `json:"objects,omitempty"` // instead, of a cluster of TiDB Operator 2.x
	PVCs        []json.RawMessage `json:"pvcs"`
	PVs         []json.RawMessage `json:"pvs"`
	// VolumeTags are the volumes' EC2 tags, some of which a backup may keep.
	VolumeTags map[cluster.VolumeID]ebs.Tags `json:"-"`
	// Busy are the volumes with so many snapshots in progress that EC2 would refuse another.
	Busy []cluster.VolumeID `json:"-"`
	// ResolvedTS is the resolved ts that the checks used.
	ResolvedTS cluster.TS `json:"-"`
}

// Backup checks that the cluster can be backed up now and returns its parts.
func Backup(ctx context.Context, k kube.Clusters, p PD, e EBS, name cluster.Name, limits Limits) (*Source, error) {
	src, err := Describe(ctx, k, p, e, name)
	if err != nil {
		return nil, err
	}
	if src.ResolvedTS, err = checkResolvedTS(ctx, p, name, limits); err != nil {
		return nil, err
	}
	if err := CheckPending(ctx, e, len(src.Topology.VolumeIDs()), limits.Pending); err != nil {
		return nil, err
	}
	if err := ProbeCut(ctx, e, &src.Topology); err != nil {
		return nil, err
	}
	if src.Busy, _, err = Busy(ctx, e, &src.Topology); err != nil {
		return nil, err
	}
	if err := fillCluster(ctx, p, src); err != nil {
		return nil, err
	}
	return src, nil
}

// Describe checks that the cluster's stores, pods and volumes match, and are ready to be backed up.
func Describe(ctx context.Context, k kube.Clusters, p PD, e EBS, name cluster.Name) (*Source, error) {
	tc, err := k.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	if tc.RecoveryMode {
		return nil, failure.New(failure.Unready, "check cluster", name.String(),
			"it is in recovery mode: a restore is running or has failed").
			WithHint("wait until the restore has ended; if it failed, its data is inconsistent: back up the original " +
				"cluster instead")
	}
	if tc.Unsteady != nil {
		return nil, tc.Unsteady
	}
	pods, err := k.TiKVPods(ctx, name)
	if err != nil {
		return nil, err
	}
	stores, tiflash, err := liveStores(ctx, p, name)
	if err != nil {
		return nil, err
	}
	src := &Source{TidbCluster: tc.Object, Objects: tc.Objects}
	t := &src.Topology
	t.Cluster, t.PD, t.PDReplicas, t.TiDBReplicas = tc.Name, tc.PDAddresses, tc.PDReplicas, tc.TiDBReplicas
	t.TiFlashStores = tiflash
	if err := matchStores(src, tc, pods, stores); err != nil {
		return nil, err
	}
	if err := checkScaling(tc, len(pods)); err != nil {
		return nil, err
	}
	return src, describeVolumes(ctx, e, src)
}

// checkScaling refuses a cluster whose TiKV is being scaled: the backup would have a store too many or too few.
func checkScaling(tc kube.TidbCluster, pods int) error {
	wanted := tc.TiKVReplicas + tc.FailureStores
	if pods == wanted && !tc.Scaling {
		return nil
	}
	return failure.New(failure.Unready, "check pods", tc.Name.String(),
		"TiKV is being scaled: there are %d pods, but spec.tikv.replicas is %d (and %d replace failed stores)",
		pods, tc.TiKVReplicas, tc.FailureStores).
		WithHint("run it again when scaling has finished and every store in PD is Up")
}

// fillCluster adds PD's cluster id and version.
func fillCluster(ctx context.Context, p PD, src *Source) (err error) {
	t := &src.Topology
	if t.ClusterID, err = p.ClusterID(ctx); err != nil {
		return failure.Annotate(err, "read cluster id", t.Cluster.String())
	}
	t.Version, err = p.Version(ctx)
	return failure.Annotate(err, "read version", t.Cluster.String())
}

// LiveStores lists the TiKV stores that are not tombstones, by id. It is Unready if one is not up, or if there are
// none.
func LiveStores(ctx context.Context, p pd.Members, name cluster.Name) ([]pd.Store, error) {
	live, _, err := liveStores(ctx, p, name)
	if err != nil {
		return nil, err
	}
	stores := make([]pd.Store, 0, len(live))
	for _, id := range sortedIDs(live) {
		stores = append(stores, live[id])
	}
	return stores, nil
}

// liveStores lists the TiKV stores that are not tombstones, all of which must be up, and counts the TiFlash stores.
func liveStores(
	ctx context.Context, p pd.Members, name cluster.Name,
) (live map[cluster.StoreID]pd.Store, tiflash int, err error) {
	all, err := p.Stores(ctx)
	if err != nil {
		return nil, 0, failure.Annotate(err, "list stores", name.String())
	}
	live = map[cluster.StoreID]pd.Store{}
	for _, s := range all {
		if s.State == pd.StoreTombstone {
			continue
		}
		if !s.IsTiKV() {
			tiflash++
			continue
		}
		if s.State != pd.StoreUp {
			return nil, 0, failure.New(failure.Unready, "check stores", name.String(), "store %s (%s) is %s", s.ID,
				s.Address, s.State).
				WithHint("wait until the store is Up, or is a Tombstone")
		}
		live[s.ID] = s
	}
	if len(live) == 0 {
		return nil, 0, failure.New(failure.Unready, "check stores", name.String(), "it has no TiKV store").
			WithHint("start the cluster's TiKV stores, or specify the cluster that holds the data")
	}
	return live, tiflash, nil
}
