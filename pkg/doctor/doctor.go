package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Purpose is what is to be possible afterwards.
type Purpose string

// The purposes.
const (
	All     Purpose = "all"
	Backup  Purpose = "backup"
	Restore Purpose = "restore"
	GC      Purpose = "gc"
	Archive Purpose = "archive"
	Copy    Purpose = "copy"
	Drill   Purpose = "drill"
)

// Purposes lists the purposes, the default first.
func Purposes() []string {
	var names []string
	for _, p := range append([]Purpose{All}, append(usual(), Drill)...) {
		names = append(names, string(p))
	}
	return names
}

// usual are the purposes of All. Drills have a role of their own in Kubernetes, which most clusters' runs lack.
func usual() []Purpose { return []Purpose{Backup, Restore, GC, Archive, Copy} }

// Kube is the part of Kubernetes that the checks use.
type Kube interface {
	kube.Clusters
	Missing(ctx context.Context, namespace string, restore bool) ([]string, error)
	MissingForDrill(ctx context.Context) ([]string, error)
	MissingForJobs(ctx context.Context, namespace string, of kube.JobsPurpose) ([]string, error)
	Namespace() string // in which Jobs are made
}

// PD is the part of the placement driver that the checks use.
type PD interface {
	preflight.PD
	pd.Imports
}

// TiKV is the part of the stores that the checks use.
type TiKV interface {
	tikv.EarlyApplier
	ImportMode(ctx context.Context, address string) (bool, error)
}

// EBS is the part of EC2 that the checks use.
type EBS interface {
	preflight.EBS
	ebs.Inventory
	AccountID(ctx context.Context) (string, error)
	ProbeCopy(ctx context.Context, req ebs.CopyRequest) error
	DefaultKey(ctx context.Context) (ebs.DefaultKey, error)
}

// Deps open the connections, each at most once. An error is the outcome of the checks that need the connection.
type Deps struct {
	Kube  func(context.Context) (Kube, error)
	PD    func(context.Context, kube.TidbCluster) (PD, error) // called after Kube
	TiKV  func() TiKV                                         // called after PD
	EBS   func(context.Context) (EBS, error)
	Store func(context.Context) (objstore.Store, error)
	// Blocks reads snapshots by the EBS direct APIs. It is called after EBS.
	Blocks func(context.Context) (ebsdirect.Source, error)
	// ArchiveKeys are KMS keys that unlock repositories of archives, and KMS asks about them.
	ArchiveKeys []string
	KMS         ebs.Encryption
	// Repository is the storage of archives; nil checks none.
	Repository func(context.Context) (objstore.Store, error)
	Now        func() time.Time
	Limit      time.Duration // of each check, and of each connection
}

// patient is what is checked, and what several checks read of it.
type patient struct {
	name    cluster.Name
	purpose Purpose
	now     func() time.Time
	tikv    func() TiKV
	keys    []string // of archives
	kms     ebs.Encryption

	kube    func() (Kube, error)
	cluster func() (kube.TidbCluster, error)
	pd      func() (PD, error)
	ebs     func() (EBS, error)
	store   func() (objstore.Store, error)
	blocks  func() (ebsdirect.Source, error)
	// repository is nil if there is none to check.
	repository func() (objstore.Store, error)
	source     func() (*preflight.Source, error)
	made       func() (made, error)
}

// made is a snapshot and a volume that tisnap made, if there are any: EC2 is asked whether they may be changed.
type made struct {
	snapshot cluster.SnapshotID
	volume   cluster.VolumeID
	zone     cluster.Zone // of the volume, or any
}

// once opens or reads something on its first call, for at most limit.
func once[T any](ctx context.Context, limit time.Duration, open func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return open(limited)
	})
}

func newPatient(ctx context.Context, deps Deps, name cluster.Name, purpose Purpose) *patient {
	p := &patient{
		name: name, purpose: purpose, now: deps.Now, tikv: deps.TiKV, keys: deps.ArchiveKeys, kms: deps.KMS,
	}
	p.kube = once(ctx, deps.Limit, deps.Kube)
	p.ebs = once(ctx, deps.Limit, deps.EBS)
	p.store = once(ctx, deps.Limit, deps.Store)
	if deps.Repository != nil {
		p.repository = once(ctx, deps.Limit, deps.Repository)
	}
	p.blocks = once(ctx, deps.Limit, deps.Blocks)
	p.cluster = once(ctx, deps.Limit, func(ctx context.Context) (kube.TidbCluster, error) {
		k, err := p.kube()
		if err != nil {
			return kube.TidbCluster{}, err
		}
		return k.Cluster(ctx, name)
	})
	p.pd = once(ctx, deps.Limit, func(ctx context.Context) (PD, error) {
		tc, err := p.cluster()
		if err != nil {
			return nil, err
		}
		return deps.PD(ctx, tc)
	})
	p.source = once(ctx, deps.Limit, p.describe)
	p.made = once(ctx, deps.Limit, p.findMade)
	return p
}

// describe finds the cluster's stores and volumes.
func (p *patient) describe(ctx context.Context) (*preflight.Source, error) {
	d, err := p.pd()
	if err != nil {
		return nil, err
	}
	e, err := p.ebs()
	if err != nil {
		return nil, err
	}
	k, err := p.kube()
	if err != nil {
		return nil, err
	}
	return preflight.Describe(ctx, k, d, e, p.name)
}

// findMade finds what tisnap made in the account.
func (p *patient) findMade(ctx context.Context) (found made, err error) {
	e, err := p.ebs()
	if err != nil {
		return found, err
	}
	snapshots, err := e.AllSnapshots(ctx)
	if err != nil {
		return found, err
	}
	completed := slices.IndexFunc(snapshots, func(s ebs.Snapshot) bool { return s.State == ebs.SnapshotCompleted })
	if completed >= 0 {
		found.snapshot = snapshots[completed].ID
	}
	volumes, err := e.AllVolumes(ctx)
	if err != nil {
		return found, err
	}
	if len(volumes) > 0 {
		found.volume, found.zone = volumes[0].ID, volumes[0].Zone
		return found, nil
	}
	zones, err := e.Zones(ctx)
	if err == nil && len(zones) == 0 {
		err = failure.New(failure.Unready, "list zones", e.Region(), "there are none")
	}
	if err == nil {
		found.zone = zones[0]
	}
	return found, err
}

// Run makes the checks for a purpose, all at the same time, and returns them in a fixed order. For a restore the
// cluster is the source, whose volumes are to be made again; it may be missing.
func Run(ctx context.Context, deps Deps, name cluster.Name, purpose Purpose) []Check {
	p := newPatient(ctx, deps, name, purpose)
	purposes := []Purpose{purpose}
	if purpose == All {
		purposes = usual()
	}
	wanted := slices.DeleteFunc(p.checks(), func(c check) bool {
		return !slices.ContainsFunc(c.of, func(of Purpose) bool { return slices.Contains(purposes, of) })
	})
	rows := make([][]Check, len(wanted))
	for i, c := range wanted {
		rows[i] = c.notMade(failure.New(failure.Unknown, "", "", "it did not end"))
	}
	_ = parallel.Each(ctx, 0, wanted, func(ctx context.Context, i int, c check) error {
		limited, cancel := context.WithTimeout(ctx, deps.Limit)
		defer cancel()
		rows[i] = c.make(limited, c.Check)
		return nil
	})
	return slices.Concat(rows...)
}
