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
)

// Operations lists all operations.
func Operations() []Operation { return []Operation{Backup, Restore, Resolve, Archive} }

// About is the journal's first record: the description of the run.
type About struct {
	Operation Operation        `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"` // source of a backup or archive, target of a restore
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

// Lock names the lock that the run takes: its cluster's, or one beside that of an archive, which leaves the cluster
// alone. No cluster's name has a dot.
func (a *About) Lock() cluster.Name {
	if a.Operation != Archive {
		return a.Cluster
	}
	return cluster.Name{Namespace: a.Cluster.Namespace, Name: a.Cluster.Name + archiveLock}
}

// archiveLock ends the names of archives' locks.
const archiveLock = ".archive"

// ArchiveOf returns the cluster whose archives take that lock; false for another lock.
func ArchiveOf(lock cluster.Name) (cluster.Name, bool) {
	name, is := strings.CutSuffix(lock.Name, archiveLock)
	return cluster.Name{Namespace: lock.Namespace, Name: name}, is
}

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
	if a.Request == nil {
		differing = append(differing, "an older version of tisnap made it")
	}
	names := map[string]string{}
	maps.Copy(names, a.Request)
	maps.Copy(names, other.Request)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		compare("--"+name, a.Request[name], other.Request[name])
	}
	if len(differing) == 0 {
		return nil
	}
	hint := "run the command that it was started with"
	if a.Operation != Archive { // which has nothing to undo
		hint += ", or undo it: tisnap runs abort " + string(run)
	}
	return failure.New(failure.Conflict, "resume run", string(run), "it is of another request: %s",
		strings.Join(differing, "; ")).WithHint("%s", hint)
}

// ReadAbout reads the run's description from its journal's first record; Corrupt if that record lacks it.
func ReadAbout(run cluster.RunID, first phase.Record) (About, error) {
	var a About
	if first.Type != phase.RecordRun {
		return a, failure.New(failure.Corrupt, "read journal", string(run), "it does not say what the run is")
	}
	if err := json.Unmarshal(first.Data, &a); err != nil {
		return About{}, failure.New(failure.Corrupt, "read journal", string(run), "it does not say what the run is: %w",
			err)
	}
	return a, nil
}
