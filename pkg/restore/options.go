package restore

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Options are what the user chose.
type Options struct {
	Backup cluster.BackupID
	// Manifest is that of Backup, if the caller has it: of a backup that br made, which has no seal. Nil reads the
	// sealed one.
	Manifest *manifest.Manifest
	// VerifyKey is by whom the backup must be signed; nil takes signed and unsigned ones. With Manifest it is not used.
	VerifyKey *manifest.VerifyKey
	Target    cluster.Name
	Run       cluster.RunID
	Owner     runlock.Owner
	Tool      string
	// Volume is the type, IOPS and throughput of the new volumes; empty fields keep the source's.
	Volume cluster.VolumeSpec
	// Zone puts all volumes there; empty keeps each volume's zone, or what Zones says of it.
	Zone  cluster.Zone
	Zones []volumes.ZonePair
	// KMSKey encrypts the volumes with another key; empty keeps each snapshot's key.
	KMSKey string
	// Encrypt encrypts also the volumes of snapshots that are not encrypted, with the account's default key.
	Encrypt bool
	// Scope is which volumes are made; the zero value is all. Only Prepare uses it.
	Scope volumes.Scope
	// KeepTags are tag keys of the snapshots that their volumes get too.
	KeepTags []string
	// InitializationMiB is the most MiB/s at which EC2 fills each volume, billed by AWS; 0 leaves it to the reads.
	InitializationMiB int64
	// FastRestore enables fast snapshot restore for the time in which the volumes are made.
	FastRestore bool
	// After is the type, IOPS and throughput that the volumes get once the cluster serves; the zero value changes
	// nothing.
	After cluster.VolumeSpec
	// Account is the account that the restore has to be in; empty takes any.
	Account string
	// Kubernetes is the API server of the target, for the journal: gc shows it.
	Kubernetes string
	// KeepServiceSettings keeps the source's node ports, host names and addresses of load balancers.
	KeepServiceSettings bool
	// Changes are what the user wants to be different in the target from its source. A target that exists takes none.
	Changes operator1.Changes
	// KeepOnFailure leaves what a failed run made, for a person to examine.
	KeepOnFailure bool
	// Timeout bounds each wait for other systems (volumes, pods, stores); zero is 1 h.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a volume that exists; zero is ebs.VisibleWithin.
	Visibility time.Duration
	// Now is the clock that EC2's times are compared with; nil is time.Now.
	Now func() time.Time
	// Serial does one step after the other, where otherwise those that need not wait for each other overlap.
	Serial bool
	// WaitApply waits for every store's log before the flashback begins; see resolve.Config.
	WaitApply bool
	// Flashback is which regions are taken back to the backup ts; empty is FlashbackAuto.
	Flashback FlashbackPolicy
	// CheckUnchanged is how many unchanged regions are taken back all the same, to check that nothing changes.
	CheckUnchanged int
	// PDState is what to do with the PD state of the backup; empty is RestorePDState.
	PDState PDStatePolicy
	// TiFlash is what to do if the source had TiFlash stores; empty is to report it.
	TiFlash preflight.TiFlashPolicy
	// OnTasks is what to do about log backups and changefeeds of the target; empty is TasksReport.
	OnTasks OnTasks
	// LockWait is how long another run's lock of the target is watched at most, to find out whether that run is alive;
	// zero is 90 s, and runlock.NoWait refuses at once.
	LockWait time.Duration
	// AliveWait is how long the lock of a run that is alive is waited for beside that; zero refuses. It is for where
	// nobody can run the command again.
	AliveWait time.Duration
	// TolerateStores are stores of the backup that the cluster is brought up without, if every region has a quorum
	// on the others. Their volumes are made: a store that comes later catches up by itself.
	TolerateStores []cluster.StoreID
	// BreakLock takes the target's lock from a run that is known to be dead. Only Resolve uses it.
	BreakLock bool
}

// withDefaults fills in what the user left out.
func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	if o.Visibility == 0 {
		o.Visibility = ebs.VisibleWithin
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// ofVolumes are the options about volumes; br is of a run whose volumes TiDB Operator binds.
func (o *Options) ofVolumes(br bool) volumes.Options {
	return volumes.Options{
		Spec: o.Volume, Zone: o.Zone, Zones: o.Zones, KMSKey: o.KMSKey, Encrypt: o.Encrypt, Scope: o.Scope,
		KeepTags: o.KeepTags, InitializationMiB: o.InitializationMiB, FastRestore: o.FastRestore, After: o.After,
		Account: o.Account, BR: br, Timeout: o.Timeout, Visibility: o.Visibility, Poll: pollInterval, Now: o.Now,
	}
}
