package manifest

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Elsewhere lists, in ascending order, the stores of the document's cluster that are in other Kubernetes clusters, each
// of which has a backup of its own stores. An unreadable TidbCluster is Corrupt.
func (d *BRMeta) Elsewhere() ([]cluster.StoreID, error) {
	return storesElsewhere(d.Kubernetes.TidbCluster)
}

// Elsewhere is BRMeta.Elsewhere for the cluster that was backed up. It is empty for a backup of a whole cluster.
func (m *Manifest) Elsewhere() ([]cluster.StoreID, error) {
	return storesElsewhere(m.Kubernetes.TidbCluster)
}

// storesElsewhere reads status.tikv.peerStores, where TiDB Operator keeps the stores whose pods it does not run.
func storesElsewhere(tidbCluster json.RawMessage) ([]cluster.StoreID, error) {
	if len(tidbCluster) == 0 {
		return nil, nil
	}
	var object struct {
		Status struct {
			TiKV struct {
				PeerStores map[string]json.RawMessage `json:"peerStores"`
			} `json:"tikv"`
		}
	}
	if err := json.Unmarshal(tidbCluster, &object); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read crd_tidb_cluster", "")
	}
	var ids []cluster.StoreID
	for text := range object.Status.TiKV.PeerStores {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, failure.New(failure.Corrupt, "read crd_tidb_cluster", "", "status.tikv.peerStores has store %q",
				text)
		}
		ids = append(ids, cluster.StoreID(id))
	}
	slices.Sort(ids)
	return ids, nil
}
