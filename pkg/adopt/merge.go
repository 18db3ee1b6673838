package adopt

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// part is a part as its storage has it.
type part struct {
	manifest.Part

	of *manifest.Manifest
}

// check refuses parts that are not those of one VolumeBackup, each once.
func check(parts []part) error {
	first := parts[0]
	owner := map[cluster.StoreID]string{}
	for _, p := range parts {
		switch m := p.of; {
		case m.HeldBy == "":
			return refuse(failure.Unready, p.Name, "%s has no record of another process's hold, by which its other "+
				"parts are known", m.ID).
				WithHint("take a VolumeBackup with this version's br")
		case m.HeldBy != first.of.HeldBy:
			return refuse(failure.Conflict, p.Name, "it was cut under the hold of run %s, and part %s under that of "+
				"run %s", m.HeldBy, first.Name, first.of.HeldBy).
				WithHint("name the storages of one VolumeBackup")
		case m.Source.ClusterID != first.of.Source.ClusterID:
			return refuse(failure.Conflict, p.Name, "it is of cluster %d, and part %s of cluster %d",
				m.Source.ClusterID, first.Name, first.of.Source.ClusterID)
		case m.Region != first.of.Region:
			return refuse(failure.Conflict, p.Name, "its snapshots are in %s, and those of part %s in %s", m.Region,
				first.Name, first.of.Region)
		case m.Kubernetes.Operator() != "" || m.CopyOf != nil || len(m.Parts) > 0:
			return refuse(failure.Usage, p.Name, "it is not a part that br made for TiDB Operator 1.x")
		}
		for _, id := range p.Stores {
			if other := owner[id]; other != "" {
				return refuse(failure.Conflict, p.Name, "store %s is also in part %s", id, other)
			}
			owner[id] = p.Name
		}
	}
	return checkWhole(parts, owner)
}

// checkWhole refuses parts unless together they have the stores that each of them knows.
func checkWhole(parts []part, owner map[cluster.StoreID]string) error {
	for _, p := range parts {
		elsewhere, err := p.of.Elsewhere()
		if err != nil {
			return failure.Annotate(err, "adopt part", p.Name)
		}
		var missing, unknown []string
		for _, id := range elsewhere {
			if owner[id] == "" {
				missing = append(missing, id.String())
			}
		}
		for _, id := range slices.Sorted(maps.Keys(owner)) {
			if owner[id] != p.Name && !slices.Contains(elsewhere, id) {
				unknown = append(unknown, id.String()+" of part "+owner[id])
			}
		}
		switch {
		case len(missing) > 0:
			return refuse(failure.Unready, p.Name, "its cluster has stores that are in no part: %s",
				failure.List(missing)).
				WithHint("name the storage of each Kubernetes cluster with --part")
		case len(unknown) > 0:
			return refuse(failure.Conflict, p.Name, "it does not know these stores: %s", failure.List(unknown)).
				WithHint("name the storages of one VolumeBackup; see the stores of each with tisnap describe")
		}
	}
	return nil
}

func refuse(kind failure.Kind, name, format string, args ...any) *failure.Error {
	return failure.New(kind, "adopt part", name, format, args...)
}

// merge returns the manifest of the whole. Of what the parts know differently it has what is safe for all: the lowest
// backup ts, before which everything was resolved ahead of any part's cut; the highest timestamps and ids; and early
// apply is ruled out where all of them rule it out.
func merge(id cluster.BackupID, run cluster.RunID, tool string, parts []part) (*manifest.Manifest, error) {
	parts, err := firstFirst(parts)
	if err != nil {
		return nil, err
	}
	first := parts[0].of
	m := &manifest.Manifest{
		APIVersion: manifest.APIVersion, Kind: manifest.Kind, ID: id, Run: run, Tool: tool,
		FullBackupType: manifest.FullBackupType, Region: first.Region, HeldBy: first.HeldBy,
		ZoneIDs: map[cluster.Zone]string{}, Source: first.Source, EarlyApply: earlyApply(parts),
	}
	m.Source.Stores, m.Source.PDReplicas, m.Source.TiDBReplicas, m.Source.TiFlashStores = nil, 0, 0, 0
	objects := make([]json.RawMessage, len(parts))
	for i, p := range parts {
		if p.of.Source.Version != first.Source.Version {
			return nil, refuse(failure.Conflict, p.Name, "it is of TiKV %s, and part %s of %s", p.of.Source.Version,
				parts[0].Name, first.Source.Version)
		}
		add(m, p.of)
		m.Parts = append(m.Parts, p.Part)
		objects[i] = p.of.Kubernetes.TidbCluster
	}
	m.MaxTS = known(parts, func(m *manifest.Manifest) cluster.TS { return m.MaxTS }, slices.Max)
	m.AllocID = known(parts, func(m *manifest.Manifest) uint64 { return m.AllocID }, slices.Max)
	m.Replicas = known(parts, func(m *manifest.Manifest) int { return m.Replicas }, slices.Min)
	if m.Kubernetes.TidbCluster, err = operator1.Joined(objects); err != nil {
		return nil, failure.Annotate(err, "adopt parts", string(id))
	}
	return m, failure.Annotate(m.Validate(), "adopt parts", string(id))
}

// firstFirst puts the part whose TidbCluster the others join before them.
func firstFirst(parts []part) ([]part, error) {
	out := slices.Clone(parts)
	for i, p := range out {
		joins, err := operator1.Joins(p.of.Kubernetes.TidbCluster)
		if err != nil {
			return nil, failure.Annotate(err, "adopt part", p.Name)
		}
		if !joins {
			return slices.Insert(slices.Delete(out, i, i+1), 0, p), nil
		}
	}
	return out, nil
}

// add adds to m what a part has of its own.
func add(m, of *manifest.Manifest) {
	m.Source.Stores = append(m.Source.Stores, of.Source.Stores...)
	m.Source.PDReplicas += of.Source.PDReplicas
	m.Source.TiDBReplicas += of.Source.TiDBReplicas
	m.Source.TiFlashStores += of.Source.TiFlashStores
	m.Snapshots = append(m.Snapshots, of.Snapshots...)
	maps.Copy(m.ZoneIDs, of.ZoneIDs)
	m.BackupTS = lower(m.BackupTS, of.BackupTS)
	m.CreatedAt, m.CutStartedAt = earlier(m.CreatedAt, of.CreatedAt), earlier(m.CutStartedAt, of.CutStartedAt)
	if of.CutEndedAt.After(m.CutEndedAt) {
		m.CutEndedAt = of.CutEndedAt
	}
	if m.PDState == nil {
		m.PDState = of.PDState
	}
	if len(m.LogBackups) == 0 {
		m.LogBackups = of.LogBackups
	}
}

func lower(a, b cluster.TS) cluster.TS {
	if a == 0 || b < a {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// known picks one of the parts' values, and returns 0, unknown, if one of them is.
func known[T cmp.Ordered](parts []part, value func(*manifest.Manifest) T, pick func([]T) T) T {
	var zero T
	values := make([]T, len(parts))
	for i, p := range parts {
		if values[i] = value(p.of); values[i] == zero {
			return zero
		}
	}
	return pick(values)
}

// earlyApply is unproven unless every part rules it out, and names where only if every unproven part does.
func earlyApply(parts []part) *manifest.EarlyApply {
	out := &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}
	somewhere := false
	for _, p := range parts {
		of := p.of.EarlyApply
		switch {
		case p.of.EarlyApplyRuledOut():
			if of.State == manifest.EarlyApplyExcluded && out.State == manifest.EarlyApplyNotApplicable {
				out.State = manifest.EarlyApplyExcluded
			}
			continue
		case of == nil || len(of.Stores)+len(of.Regions) == 0:
			somewhere = true
		default:
			out.Stores, out.Regions = append(out.Stores, of.Stores...), append(out.Regions, of.Regions...)
		}
		out.State = manifest.EarlyApplyUnproven
	}
	if somewhere {
		out.Stores, out.Regions = nil, nil
	}
	return out
}
