package brcompat

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// volumeFile is TiDB Operator's description of the cluster to back up: its clustermeta.
type volumeFile struct {
	*manifest.BRMeta

	name      cluster.Name
	elsewhere map[cluster.StoreID]bool // stores of the same cluster in other Kubernetes clusters
	dropped   []string                 // claims and persistent volumes that no store uses
}

// readVolumeFile reads the file and rejects, before anything is changed, what a restore would fail on: no stores or
// volumes, wrong counts, or a volume without its persistent volume and claim. It drops claims and persistent volumes
// without a store, which scaling in leaves behind. Kinds: NotFound, Corrupt.
func readVolumeFile(path string, fallback cluster.Name) (*volumeFile, error) {
	doc, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, failure.Wrap(err, failure.NotFound, "read --volume-file", path)
	}
	d, err := manifest.ParseBR(doc)
	if err != nil {
		return nil, failure.Annotate(err, "read --volume-file", path)
	}
	f := &volumeFile{BRMeta: d, name: fallback}
	roles := func() error { return fillRoles(d) }
	for _, check := range []func() error{f.readCluster, f.checkStores, f.matchObjects, roles} {
		if err := check(); err != nil {
			return nil, failure.Annotate(err, "read --volume-file", path)
		}
	}
	return f, nil
}

// readCluster reads the cluster's name, and which of its stores are in other Kubernetes clusters.
func (f *volumeFile) readCluster() error {
	var object struct {
		Metadata struct{ Name, Namespace string }
	}
	if len(f.Kubernetes.TidbCluster) == 0 || string(f.Kubernetes.TidbCluster) == "null" {
		return nil
	}
	if err := json.Unmarshal(f.Kubernetes.TidbCluster, &object); err != nil {
		return failure.Wrap(err, failure.Corrupt, "read crd_tidb_cluster", "")
	}
	if object.Metadata.Name != "" {
		f.name = cluster.Name{Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}
	}
	elsewhere, err := f.Elsewhere()
	f.elsewhere = map[cluster.StoreID]bool{}
	for _, id := range elsewhere {
		f.elsewhere[id] = true
	}
	return err
}

func (f *volumeFile) checkStores() error {
	stores := len(f.TiKV.Stores)
	seen := map[string]bool{}
	switch {
	case stores == 0:
		return failure.New(failure.Corrupt, "", "", "it lists no TiKV stores: there is nothing to back up")
	case f.TiKV.Replicas != stores && f.TiKV.Replicas != stores+len(f.elsewhere):
		return failure.New(failure.Corrupt, "", "", "it lists %d TiKV stores but declares %d", stores,
			f.TiKV.Replicas).
			WithHint("wait until scaling has finished and PD's stores match the cluster's pods, then back up again")
	}
	for _, s := range f.TiKV.Stores {
		if len(s.Volumes) == 0 {
			return failure.New(failure.Corrupt, "", "", "store %d has no volumes", s.ID)
		}
		for _, v := range s.Volumes {
			if v.ID == "" || seen[v.ID] {
				return failure.New(failure.Corrupt, "", "", "volume %q of store %d is empty or listed twice", v.ID,
					s.ID)
			}
			seen[v.ID] = true
		}
	}
	return nil
}

// boundVolume is the relevant part of a persistent volume.
type boundVolume struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		CSI      struct{ VolumeHandle string }
		ClaimRef struct{ Name string }
	}
	raw json.RawMessage
}

// matchObjects drops persistent volumes and claims without a store. A document without any is left alone: it is not
// meant for a restore by TiDB Operator.
func (f *volumeFile) matchObjects() error {
	if len(f.Kubernetes.PVs) == 0 && len(f.Kubernetes.PVCs) == 0 {
		return nil
	}
	bound, err := f.boundVolumes()
	if err != nil {
		return err
	}
	var pvs, pvcs []json.RawMessage
	wanted := map[string]bool{}
	for _, s := range f.TiKV.Stores {
		for _, v := range s.Volumes {
			pv, ok := bound[v.ID]
			if !ok {
				return failure.New(failure.Corrupt, "match volumes", v.ID,
					"store %d has it, but it has no persistent volume", s.ID)
			}
			wanted[pv.Metadata.Name] = true
		}
	}
	for _, raw := range f.Kubernetes.PVs {
		var pv boundVolume
		if err := json.Unmarshal(raw, &pv); err != nil || wanted[pv.Metadata.Name] {
			pvs = append(pvs, raw)
			continue
		}
		f.dropped = append(f.dropped, "persistent volume "+pv.Metadata.Name)
	}
	for _, raw := range f.Kubernetes.PVCs {
		var claim struct {
			Metadata struct{ Name string }
			Spec     struct{ VolumeName string }
		}
		if err := json.Unmarshal(raw, &claim); err != nil {
			return failure.Wrap(err, failure.Corrupt, "read claim", "")
		}
		if wanted[claim.Spec.VolumeName] {
			pvcs = append(pvcs, raw)
			continue
		}
		f.dropped = append(f.dropped, "claim "+claim.Metadata.Name)
	}
	if len(pvs) != len(pvcs) {
		return failure.New(failure.Corrupt, "match volumes", "",
			"the stores' volumes have %d persistent volumes and %d claims", len(pvs), len(pvcs)).
			WithHint("TiDB Operator's restore refuses this: find the missing claim")
	}
	f.Kubernetes.PVs, f.Kubernetes.PVCs = pvs, pvcs
	return nil
}

// boundVolumes maps each EBS volume to its persistent volume, by CSI handle or the Operator's annotation.
func (f *volumeFile) boundVolumes() (map[string]boundVolume, error) {
	bound := map[string]boundVolume{}
	for _, raw := range f.Kubernetes.PVs {
		pv := boundVolume{raw: raw}
		if err := json.Unmarshal(raw, &pv); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "read persistent volume", "")
		}
		for _, id := range []string{pv.Metadata.Annotations["temporary/volume-id"], pv.Spec.CSI.VolumeHandle} {
			if id != "" {
				bound[id] = pv
			}
		}
	}
	return bound, nil
}
