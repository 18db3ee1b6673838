package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Operation is what a run does.
type Operation string

// The operations.
const (
	Backup  Operation = "backup"
	Restore Operation = "restore"
	Resolve Operation = "resolve" // the part of a restore that comes after the volumes, alone
	Archive Operation = "archive" // copies a backup's blocks into a repository
	Copy    Operation = "copy"    // copies a backup's snapshots into another region, account or key
	Drill   Operation = "drill"   // restores a backup, checks it, and removes what it made
)

// Operations lists all operations.
func Operations() []Operation {
	return []Operation{Backup, Restore, Resolve, Archive, Copy, Drill}
}

// About is the journal's first record: the description of the run.
type About struct {
	Operation Operation        `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"` // source of a backup, archive, copy or drill, target of a restore
	Backup    cluster.BackupID `json:"backup"`
	Tool      string           `json:"tool"`
	// ClusterID is PD's id of a backup's source: names repeat across Kubernetes clusters. 0 in runs of older versions.
	ClusterID uint64 `json:"clusterID,string,omitempty"`
	// Region is the AWS region in which it makes snapshots or volumes. "" in runs that make none, or of older versions.
	Region string `json:"region,omitempty"`
	// Kubernetes is the API server of a restore's or resolve's target; "" if not recorded.
	Kubernetes string `json:"kubernetes,omitempty"`
	// KubernetesUID is the UID of the namespace kube-system there, as URLs repeat across clusters. "" if the run could
	// not read it, or was of an older version.
	KubernetesUID string `json:"kubernetesUID,omitempty"`
	// StorageID is the storage in which the run began, and Storage its location: a copy of it has the journal too. ""
	// in runs of older versions.
	StorageID string `json:"storageID,omitempty"`
	Storage   string `json:"storage,omitempty"`
	// Keep is the user's choice that a failed run keeps what it made.
	Keep bool `json:"keepOnFailure,omitempty"`
	// Chosen is the reference by which the user chose the backup; "" if it was named.
	Chosen string `json:"chosen,omitempty"`
	// Request holds the options that determine the result, by name: a run is resumed only by the same request. Nil in
	// runs of versions that could not resume.
	Request map[string]string `json:"request,omitempty"`
}

// The option of a restore that has its volumes filled by Jobs, without EC2.
const (
	ArchiveVia = "archive-via"
	ViaVolumes = "volumes"
)

// WithoutEC2 reports whether the run is a restore whose volumes are filled by Jobs.
func (a *About) WithoutEC2() bool {
	return a.Operation == Restore && a.Request[ArchiveVia] == ViaVolumes
}

// Lock names the lock that the run takes: its cluster's, or one beside that of a run that leaves the cluster alone. No
// cluster's name has a dot.
func (a *About) Lock() cluster.Name {
	switch a.Operation {
	case Archive:
		return beside(a.Cluster, archiveLock)
	case Copy:
		return beside(a.Cluster, copyLock)
	case Drill:
		return beside(a.Cluster, drillLock)
	default:
		return a.Cluster
	}
}

// The ends of the names of locks that are not a cluster's own.
const (
	archiveLock = ".archive"
	copyLock    = ".copy"
	drillLock   = ".drill"
	useLock     = ".copied-to."
)

func beside(of cluster.Name, ending string) cluster.Name {
	return cluster.Name{Namespace: of.Namespace, Name: of.Name + ending}
}

// Beside returns the cluster and the operation that a lock beside a cluster's is of; false for another lock.
func Beside(lock cluster.Name) (of cluster.Name, by Operation, is bool) {
	for ending, by := range map[string]Operation{archiveLock: Archive, copyLock: Copy, drillLock: Drill} {
		if name, cut := strings.CutSuffix(lock.Name, ending); cut {
			return cluster.Name{Namespace: lock.Namespace, Name: name}, by, true
		}
	}
	return lock, "", false
}

// UseLock names the lease by which a copy into the storage with that id keeps a backup of the cluster from being
// deleted. It is in the storage of that backup; its owner's run is in the other one.
func UseLock(of cluster.Name, storage string) cluster.Name { return beside(of, useLock+storage) }

// IsUse reports whether a lock is such a lease.
func IsUse(lock cluster.Name) bool { return strings.Contains(lock.Name, useLock) }

// SameRequest returns a Conflict that shows the difference if the run made another request, or belongs to another
// cluster of the same name.
func (a *About) SameRequest(run cluster.RunID, other *About) error {
	if _, err := a.SameCluster(run, other); err != nil {
		return err
	}
	var differing []string
	compare := func(what, mine, others string) {
		if mine != others {
			differing = append(differing, fmt.Sprintf("%s is %q and was %q", what, others, mine))
		}
	}
	compare("the command", string(a.Operation), string(other.Operation))
	compare("the cluster", a.Cluster.String(), other.Cluster.String())
	compare("the backup", string(a.Backup), string(other.Backup))
	if a.Request == nil && a.Operation == other.Operation {
		differing = append(differing, "an older version of tisnap made it")
	}
	names := map[string]string{}
	if a.Operation == other.Operation { // commands have other options
		maps.Copy(names, a.Request)
		maps.Copy(names, other.Request)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		compare("--"+name, a.Request[name], other.Request[name])
	}
	if len(differing) == 0 {
		return nil
	}
	hint := "run the command that it was started with"
	switch a.Operation {
	case Archive, Copy: // which another process only resumes
	case Drill:
		hint += ", or remove what it left: tisnap drill clean " + string(run)
	default:
		hint += ", or undo it: tisnap runs abort " + string(run)
	}
	return failure.New(failure.Conflict, "resume run", string(run), "it is of another request: %s",
		strings.Join(differing, "; ")).WithHint("%s", hint)
}

// ReadAbout reads the run's description from its journal's first record; Corrupt if that record lacks it.
func ReadAbout(run cluster.RunID, first phase.Record) (About, error) {
	var a About
	if first.Type != phase.RecordRun {
		return a, failure.New(failure.Corrupt, "read journal", string(run), "its first record is not a run's")
	}
	if err := json.Unmarshal(first.Data, &a); err != nil {
		return About{}, failure.New(failure.Corrupt, "read journal", string(run), "damaged first record: %w", err)
	}
	return a, nil
}
