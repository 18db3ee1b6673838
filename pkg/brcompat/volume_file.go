package brcompat

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// volumeFile is what TiDB Operator says of the cluster to be backed up: its clustermeta.
type volumeFile struct {
	*manifest.BRMeta

	name      cluster.Name
	elsewhere map[cluster.StoreID]bool // stores of the same cluster in other Kubernetes clusters
	dropped   []string                 // claims and persistent volumes that no store uses
}

// readVolumeFile reads it and checks, before anything is changed, what its restore would fail on: it names no stores or
// volumes, other numbers of them than it says, or a volume without its persistent volume and claim. Claims and
// persistent volumes of no store, which scaling in leaves behind, are dropped from it. Kinds: NotFound, Corrupt.
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

// readCluster reads the cluster's name, and the stores that are its too and not in this Kubernetes cluster.
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
		return failure.New(failure.Corrupt, "", "", "it names no TiKV store: there is nothing to back up")
	case f.TiKV.Replicas != stores && f.TiKV.Replicas != stores+len(f.elsewhere):
		return failure.New(failure.Corrupt, "", "", "it names %d TiKV stores and says that there are %d", stores,
			f.TiKV.Replicas).
			WithHint("wait until scaling is over and PD's stores are the cluster's pods, and back up again")
	}
	for _, s := range f.TiKV.Stores {
		if len(s.Volumes) == 0 {
			return failure.New(failure.Corrupt, "", "", "store %d has no volumes", s.ID)
		}
		for _, v := range s.Volumes {
			if v.ID == "" || seen[v.ID] {
				return failure.New(failure.Corrupt, "", "", "volume %q of store %d is empty or named twice", v.ID, s.ID)
			}
			seen[v.ID] = true
		}
	}
	return nil
}

// boundVolume is what a persistent volume says.
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

// matchObjects drops persistent volumes and claims of no store. A document without any is left as it is: then a restore
// by TiDB Operator is not what it is for.
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
					"store %d has it, and no persistent volume is of it", s.ID)
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
			WithHint("TiDB Operator's restore refuses that: find out which claim is missing")
	}
	f.Kubernetes.PVs, f.Kubernetes.PVCs = pvs, pvcs
	return nil
}

// boundVolumes finds the persistent volume of each EBS volume, by its CSI handle or the Operator's annotation.
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
