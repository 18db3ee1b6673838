package preflight

import (
	"cmp"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
)

// matchStores joins PD's stores with their pods. Every store needs a pod and every pod a store.
func matchStores(src *Source, tc kube.TidbCluster, pods []kube.Pod, stores map[cluster.StoreID]pd.Store) error {
	byName := map[string]kube.Pod{}
	for _, p := range pods {
		byName[p.Name] = p
	}
	used := map[string]cluster.StoreID{}
	for _, id := range sortedIDs(stores) {
		if tc.Elsewhere[id] {
			continue
		}
		pod, ok := byName[tc.Stores[id]]
		switch {
		case !ok:
			return failure.New(failure.Unready, "match stores with pods", tc.Name.String(),
				"store %s (%s) is in PD but has no pod", id, stores[id].Address)
		case used[pod.Name] != 0:
			return failure.New(failure.Unready, "match stores with pods", tc.Name.String(),
				"pod %s runs both store %s and store %s", pod.Name, used[pod.Name], id)
		case !pod.Ready:
			return failure.New(failure.Unready, "check pods", tc.Name.String(), "pod %s is not ready: %s", pod.Name,
				pod.Reason)
		case pod.Instance == "":
			return failure.New(failure.Unready, "check pods", tc.Name.String(),
				"node %s of pod %s is not an EC2 instance",
				pod.Node, pod.Name)
		}
		used[pod.Name] = id
		store, err := storeOf(tc, pod, stores[id])
		if err != nil {
			return err
		}
		src.Topology.Stores = append(src.Topology.Stores, store)
		for _, m := range pod.Mounts {
			src.PVCs = append(src.PVCs, m.Claim)
			src.PVs = append(src.PVs, m.Object)
		}
	}
	for _, p := range pods {
		if used[p.Name] == 0 {
			return failure.New(failure.Unready, "match stores with pods", tc.Name.String(),
				"pod %s runs no store known to PD", p.Name)
		}
	}
	return nil
}

func storeOf(tc kube.TidbCluster, pod kube.Pod, s pd.Store) (cluster.Store, error) {
	store := cluster.Store{
		ID: s.ID, Address: s.Address, Pod: pod.Name, Ordinal: pod.Ordinal, Node: pod.Node, Instance: pod.Instance,
	}
	roles := map[cluster.Role]bool{}
	for _, m := range pod.Mounts {
		if roles[m.Role] {
			return store, failure.New(failure.Unready, "check volumes", tc.Name.String(),
				"pod %s has two volumes for %s", pod.Name, m.Role)
		}
		roles[m.Role] = true
		store.Volumes = append(store.Volumes, cluster.Volume{
			ID: m.Volume, Role: m.Role, MountPath: m.MountPath, PVC: m.PVC, PV: m.PV, Zone: pod.Zone,
		})
	}
	if !roles[cluster.RoleData] {
		return store, failure.New(failure.Unready, "check volumes", tc.Name.String(), "pod %s has no EBS volume for %s",
			pod.Name, cluster.RoleData)
	}
	return store, nil
}

func sortedIDs(stores map[cluster.StoreID]pd.Store) []cluster.StoreID {
	ids := make([]cluster.StoreID, 0, len(stores))
	for id := range stores {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare)
	return ids
}
