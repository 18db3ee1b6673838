package preflight_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
)

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// now is PD's clock.
func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// world is a sound cluster of three stores with two volumes each; a test breaks one thing of it.
type world struct {
	kube.Clusters // methods that preflight does not call
	pd.Members
	ebs.Volumes
	ebs.Account
	ebs.Keys

	tc       kube.TidbCluster
	pods     []kube.Pod
	stores   []pd.Store
	volumes  []ebs.Volume
	resolved pd.ResolvedTS
	gc       cluster.TS
	pending  int
	quota    int64 // as in Service Quotas
	busy     map[cluster.VolumeID]int
	probe    error
	fail     map[string]error // by method
	tasks    []pd.ImportTask
	modes    map[string]bool // import mode by address
}

func newWorld() *world {
	w := &world{
		tc: kube.TidbCluster{
			Name: prod, Version: "v8.5.0", PDReplicas: 1, TiKVReplicas: 3, TiDBReplicas: 2,
			PDAddresses: []string{"http://pd:2379"}, Stores: map[cluster.StoreID]string{}, Object: []byte(`{"kind":"TidbCluster"}`),
		},
		resolved: pd.ResolvedTS{RealTime: true, Interval: time.Second, TS: cluster.MakeTS(now().Add(-time.Second), 0), Stores: map[cluster.StoreID]cluster.TS{}},
		fail:     map[string]error{},
	}
	for i := range 3 {
		id := cluster.StoreID(i + 1)
		pod := kube.Pod{
			Name: fmt.Sprintf("prod-tikv-%d", i), Ordinal: i, Node: fmt.Sprintf("node-%d", i), Ready: true,
			Instance: cluster.InstanceID(fmt.Sprintf("i-%d", i)), Zone: "us-west-2a",
		}
		for _, role := range []cluster.Role{cluster.RoleData, cluster.RoleRaftLog} {
			v := cluster.VolumeID(fmt.Sprintf("vol-%d-%s", i, role))
			pod.Mounts = append(pod.Mounts, kube.Mount{Role: role, Volume: v, PVC: "pvc", PV: "pv", Claim: []byte(`{}`), Object: []byte(`{}`)})
			w.volumes = append(w.volumes, ebs.Volume{
				ID: v, State: ebs.VolumeInUse, Zone: "us-west-2a", Instance: pod.Instance,
				Spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100, IOPS: 3000, ThroughputMiB: 125}, Encrypted: true, KMSKey: "key",
			})
		}
		w.pods = append(w.pods, pod)
		w.stores = append(w.stores, pd.Store{ID: id, Address: pod.Name + ":20160", State: pd.StoreUp})
		w.tc.Stores[id] = pod.Name
		w.resolved.Stores[id] = w.resolved.TS
	}
	return w
}

func (w *world) Cluster(context.Context, cluster.Name) (kube.TidbCluster, error) {
	return w.tc, w.fail["Cluster"]
}

func (w *world) TiKVPods(context.Context, cluster.Name) ([]kube.Pod, error) {
	return w.pods, w.fail["TiKVPods"]
}

func (w *world) ClusterID(context.Context) (uint64, error) { return 77, w.fail["ClusterID"] }

func (w *world) Version(context.Context) (string, error) { return "8.5.0", w.fail["Version"] }

func (w *world) Stores(context.Context) ([]pd.Store, error) { return w.stores, w.fail["Stores"] }

func (w *world) Now(context.Context) (cluster.TS, error) {
	return cluster.MakeTS(now(), 0), w.fail["Now"]
}

func (w *world) ResolvedTS(context.Context) (pd.ResolvedTS, error) {
	return w.resolved, w.fail["ResolvedTS"]
}

func (w *world) ImportTasks(context.Context) ([]pd.ImportTask, error) {
	return w.tasks, w.fail["ImportTasks"]
}

func (w *world) ImportMode(_ context.Context, address string) (bool, error) {
	return w.modes[address], w.fail["ImportMode"]
}

func (w *world) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) {
	return nil, w.gc, w.fail["SafePoints"]
}

func (w *world) DescribeVolumes(_ context.Context, ids []cluster.VolumeID) ([]ebs.Volume, error) {
	wanted := map[cluster.VolumeID]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	var out []ebs.Volume
	for _, v := range w.volumes {
		if wanted[v.ID] {
			out = append(out, v)
		}
	}
	return out, w.fail["DescribeVolumes"]
}

func (w *world) PendingSnapshots(context.Context) (int, error) {
	return w.pending, w.fail["PendingSnapshots"]
}

func (w *world) Quotas(context.Context) (ebs.AccountQuotas, error) {
	return ebs.AccountQuotas{PendingSnapshots: w.quota}, w.fail["Quotas"]
}

func (w *world) SnapshotsInProgress(context.Context, []cluster.VolumeID) (map[cluster.VolumeID]int, error) {
	return w.busy, w.fail["SnapshotsInProgress"]
}

func (w *world) Probe(_ context.Context, action ebs.Action, _ string, _ cluster.Zone) error {
	if action != ebs.ActionCreateSnapshots {
		return failure.New(failure.Unknown, "probe", string(action), "not expected")
	}
	return w.probe
}
