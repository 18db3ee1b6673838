package copyrun

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// SourceEC2 is EC2 where the backup's snapshots are. Its credentials are those of the account that has them, or any
// that may read them.
type SourceEC2 interface {
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
	AccountID(ctx context.Context) (string, error)
	Region() string
	ebs.Keys
	ebs.Sharing
}

// TargetEC2 is EC2 where the copies are made, with credentials of the account that will have them.
type TargetEC2 interface {
	ebs.Snapshots
	ebs.Copies
	ebs.Keys
	DefaultKey(ctx context.Context) (ebs.DefaultKey, error)
	AllSnapshots(ctx context.Context) ([]ebs.Snapshot, error)
	Quotas(ctx context.Context) (ebs.AccountQuotas, error)
	AccountID(ctx context.Context) (string, error)
	Region() string
}

// Deps are a run's dependencies. All are required except Sink, Log, Remains and Cost.
type Deps struct {
	From    objstore.Store // the storage that has the backup
	To      objstore.Store // the one that gets the copy; the journal goes there, too
	Source  SourceEC2
	Target  TargetEC2
	Sink    phase.Sink
	Log     *zap.Logger
	Remains *phase.Remains
	// Cost describes what a plan takes and costs, which is reported before the first change.
	Cost func(*Plan) string
}

// Options are what the user chose.
type Options struct {
	Run     cluster.RunID
	Owner   runlock.Owner
	Tool    string
	Backup  cluster.BackupID
	Cluster cluster.Name // of the backup
	// ClusterID is PD's id of it.
	ClusterID uint64
	// KMSKey encrypts the copies; "" leaves the choice to EC2: see ebs.CopyRequest.
	KMSKey string
	// Within asks EC2 to complete all copies in this time; 0 does not.
	Within   time.Duration
	LockWait time.Duration
	// Stuck is how long the copies may be without any progress; zero is DefaultStuck.
	Stuck time.Duration
	// Visibility is how long EC2 may hide a copy that exists; zero is ebs.VisibleWithin.
	Visibility time.Duration
	// Poll is how often EC2 is asked about the copies; zero is ebs.NextPoll.
	Poll time.Duration
	// VerifyKey refuses a backup that it did not sign; nil takes any. SignKey signs the copy.
	VerifyKey *manifest.VerifyKey
	SignKey   *manifest.SigningKey
}

// DefaultStuck is long: EC2 promises no progress for a copy without a duration.
const DefaultStuck = 12 * time.Hour

// Validate returns a Usage error for options that cannot work.
func (o *Options) Validate() error {
	o.Stuck, o.Visibility = cmp.Or(o.Stuck, DefaultStuck), cmp.Or(o.Visibility, ebs.VisibleWithin)
	if o.Within < 0 || o.Within%ebs.CopyWithinStep != 0 {
		return failure.New(failure.Usage, "copy backup", string(o.Backup),
			"EC2 completes copies in a multiple of %v, not in %v", ebs.CopyWithinStep, o.Within)
	}
	return nil
}

// About describes the run.
func (o *Options) About(d *Deps) journal.About {
	return journal.About{
		Operation: journal.Copy, Cluster: o.Cluster, Backup: o.Backup, ClusterID: o.ClusterID,
		Region: d.Target.Region(),
		Request: map[string]string{
			"from": objstore.Location(d.From), "region": d.Target.Region(), "kms-key": o.KMSKey,
			"within": o.Within.String(),
		},
	}
}
