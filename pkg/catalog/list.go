package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// State is a backup's state.
type State string

// The states. Only the cluster's lock shows whether an unsealed backup's run is alive.
const (
	StateSealed   State = "sealed"   // can be restored
	StateUnsealed State = "unsealed" // its run is active, or died
	StateRemoving State = "removing" // buried: no longer restorable, not completely deleted yet
	StateBroken   State = "broken"   // sealed, but snapshots are gone, according to EC2
	// StateUntrusted is sealed, but not signed with the requested key; set by VerifyEach.
	StateUntrusted State = "untrusted"
	StateDamaged   State = "damaged" // its objects are unreadable or inconsistent; Problem has the details
)

// Entry is a line of the list of backups. Unknown fields are zero.
type Entry struct {
	ID      cluster.BackupID `json:"id"`
	State   State            `json:"state"`
	Problem string           `json:"problem,omitempty"`
	Run     cluster.RunID    `json:"run"`
	Cluster cluster.Name     `json:"cluster"`
	// ClusterID is PD's, which distinguishes clusters of one name; 0 if only the manifest has it.
	ClusterID uint64 `json:"clusterID,string,omitempty"`
	Version   string `json:"version,omitempty"`
	// Operator is the generation of TiDB Operator that made the cluster: manifest.Operator2, or "" for 1.x.
	Operator  string     `json:"operator,omitempty"`
	BackupTS  cluster.TS `json:"backupTS"`
	CreatedAt time.Time  `json:"createdAt"`
	SealedAt  time.Time  `json:"sealedAt,omitzero"`
	Stores    int        `json:"stores"`
	Snapshots int        `json:"snapshots"`
	SizeGiB   int64      `json:"sizeGiB"`             // sum of the volumes' sizes
	DataBytes int64      `json:"dataBytes,omitempty"` // data in the snapshots; 0 if EC2 did not report it
	Tags      []string   `json:"tags,omitempty"`      // the user's
	// CoveredBy names the source's log backups that cover the backup ts, see manifest.LogBackup.
	CoveredBy []string `json:"coveredBy,omitempty"`
}

// maxReads bounds one list's concurrent reads; S3 serves thousands per second, with about 20 ms latency.
const maxReads = 64

// List returns all backups, oldest first. An unreadable backup is listed as damaged. For sealed backups it compares the
// manifest's size, not its digest, which Load does.
func (c Catalog) List(ctx context.Context) ([]Entry, error) {
	objects, err := c.Store.List(ctx, manifest.BackupsPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list backups", c.Store.URL())
	}
	files := map[cluster.BackupID]map[string]objstore.Object{}
	for _, o := range objects {
		id, file, ok := manifest.SplitBackupKey(o.Key)
		if !ok {
			continue
		}
		if files[id] == nil {
			files[id] = map[string]objstore.Object{}
		}
		files[id][file] = o
	}
	entries, err := c.readAll(ctx, files)
	if err != nil {
		return nil, failure.Annotate(err, "list backups", c.Store.URL())
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if byAge := a.CreatedAt.Compare(b.CreatedAt); byAge != 0 {
			return byAge
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return entries, nil
}

// readAll reads the entries of all backups. An unreadable store is an error, not a shorter list.
func (c Catalog) readAll(ctx context.Context, files map[cluster.BackupID]map[string]objstore.Object) ([]Entry, error) {
	found := make([]*Entry, len(files))
	err := parallel.Each(ctx, maxReads, slices.Collect(maps.Keys(files)),
		func(ctx context.Context, i int, id cluster.BackupID) (err error) {
			found[i], err = c.entry(ctx, id, files[id])
			return err
		})
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range found {
		if e != nil {
			entries = append(entries, *e)
		}
	}
	return entries, nil
}

// entry reads the most informative object. It returns nil for a backup that was removed meanwhile, and an error only if
// the store could not be read.
func (c Catalog) entry(ctx context.Context, id cluster.BackupID, files map[string]objstore.Object) (*Entry, error) {
	e := &Entry{ID: id, State: StateUnsealed, CreatedAt: oldest(files)}
	var err error
	switch {
	case has(files, manifest.SealFile):
		err = c.fromSeal(ctx, e, files)
	case has(files, manifest.ManifestFile):
		err = c.fromManifest(ctx, e)
	case has(files, manifest.ClaimFile):
		err = c.fromClaim(ctx, e)
	default:
		err = failure.New(failure.Corrupt, "", "", "it has neither a claim nor a manifest")
	}
	switch {
	case err == nil:
		return e, nil
	case failure.Is(err, failure.NotFound):
		return nil, nil // removed between the listing and the read
	case failure.Is(err, failure.Corrupt), failure.Is(err, failure.Usage):
		e.State, e.Problem = StateDamaged, err.Error()
		return e, nil
	default:
		return nil, err
	}
}

func (c Catalog) fromSeal(ctx context.Context, e *Entry, files map[string]objstore.Object) error {
	body, _, err := c.Store.Get(ctx, manifest.SealKey(e.ID))
	if err != nil {
		return err
	}
	if manifest.DecodeTombstone(body) != nil {
		return c.fromTombstone(ctx, e, files)
	}
	s, err := manifest.DecodeSeal(body)
	if err != nil {
		return err
	}
	e.State, e.Run, e.Cluster, e.Version, e.BackupTS = StateSealed, s.Run, s.Cluster, s.Version, s.BackupTS
	e.CreatedAt, e.SealedAt, e.Stores, e.Snapshots = s.CreatedAt, s.SealedAt, s.Stores, s.Snapshots
	e.SizeGiB, e.DataBytes, e.Tags, e.ClusterID = s.SizeGiB, s.DataBytes, s.Tags, s.ClusterID
	e.Operator, e.CoveredBy = s.Operator, s.CoveredBy
	if m, ok := files[manifest.ManifestFile]; !ok {
		return failure.New(failure.Corrupt, "", "", "its manifest is missing")
	} else if m.Size != s.Size {
		return failure.New(failure.Corrupt, "", "", "its manifest has %d bytes, but it was sealed with %d", m.Size,
			s.Size)
	}
	return nil
}

// fromTombstone describes a backup being removed, whose contents may be inconsistent.
func (c Catalog) fromTombstone(ctx context.Context, e *Entry, files map[string]objstore.Object) error {
	err := error(nil)
	switch {
	case has(files, manifest.ManifestFile):
		err = c.fromManifest(ctx, e)
	case has(files, manifest.ClaimFile):
		err = c.fromClaim(ctx, e)
	}
	e.State = StateRemoving
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) || failure.Is(err, failure.Usage) {
		return nil
	}
	return err
}

func (c Catalog) fromManifest(ctx context.Context, e *Entry) error {
	m, err := c.Unsealed(ctx, e.ID)
	if err != nil {
		return err
	}
	e.Run, e.Cluster, e.Version, e.BackupTS = m.Run, m.Source.Cluster, m.Source.Version, m.BackupTS
	e.CreatedAt, e.Stores, e.Snapshots, e.SizeGiB = m.CreatedAt, len(m.Source.Stores), len(m.Snapshots), m.SizeGiB()
	e.Tags, e.ClusterID, e.Operator = m.Tags, m.Source.ClusterID, m.Kubernetes.Operator()
	e.CoveredBy = m.CoveredBy()
	return nil
}

func (c Catalog) fromClaim(ctx context.Context, e *Entry) error {
	claim, err := c.readClaim(ctx, e.ID)
	if err != nil {
		return err
	}
	e.Run, e.Cluster, e.CreatedAt = claim.Run, claim.Cluster, claim.ClaimedAt
	return nil
}

func has(files map[string]objstore.Object, name string) bool {
	_, ok := files[name]
	return ok
}

// oldest is the best guess of an unreadable backup's age.
func oldest(files map[string]objstore.Object) time.Time {
	var first time.Time
	for _, o := range files {
		if first.IsZero() || o.Modified.Before(first) {
			first = o.Modified
		}
	}
	return first
}
