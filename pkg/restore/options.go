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
	// Manifest is Backup's, if the caller has it: that of a backup by br, which has no seal. Nil reads the sealed one.
	Manifest *manifest.Manifest
	// FromArchive is Request of Deps.Archive; nil without one.
	FromArchive map[string]string
	// VerifyKey must have signed the backup; nil accepts any. It is not used with Manifest.
	VerifyKey *manifest.VerifyKey
	Target    cluster.Name
	Run       cluster.RunID
	Owner     runlock.Owner
	Tool      string
	// Volume is the type, IOPS and throughput of the new volumes; empty fields keep the source's.
	Volume cluster.VolumeSpec
	// Zone is for all volumes; empty keeps each volume's zone, or maps it by Zones.
	Zone  cluster.Zone
	Zones []volumes.ZonePair
	// KMSKey encrypts the volumes with another key; empty keeps each snapshot's key.
	KMSKey string
	// Encrypt also encrypts the volumes of unencrypted snapshots, with the account's default key.
	Encrypt bool
	// Scope selects the volumes to make; the zero value is all. Only Prepare uses it.
	Scope volumes.Scope
	// KeepTags are tag keys to copy from the snapshots to their volumes.
	KeepTags []string
	// Tags are put on the volumes besides tisnap's own.
	Tags ebs.Tags
	// InitializationMiB is the maximum MiB/s at which EC2 initializes each volume, billed by AWS; 0 initializes on
	// read.
	InitializationMiB int64
	// FastRestore enables fast snapshot restore while the volumes are made.
	FastRestore bool
	// After is the volumes' type, IOPS and throughput once the cluster serves; the zero value changes nothing.
	After cluster.VolumeSpec
	// Account is the account that the restore must run in; empty accepts any.
	Account string
	// Kubernetes is the target's API server, for the journal: gc shows it.
	Kubernetes string
	// KeepServiceSettings keeps the source's node ports, host names and addresses of load balancers.
	KeepServiceSettings bool
	// Changes are the user's changes to the target's object. An existing target allows none.
	Changes operator1.Changes
	// Operator is the generation of TiDB Operator that is to run the target, "1" or "2"; "" is the source's, or the
	// only one installed.
	Operator string
	// Chosen is the reference by which the user chose the backup; "" if it was named.
	Chosen string
	// KeepOnFailure keeps what a failed run made, for examination.
	KeepOnFailure bool
	// Timeout bounds each wait for other systems (volumes, pods, stores); zero is 1 h.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a volume that exists; zero is ebs.VisibleWithin.
	Visibility time.Duration
	// Now is the clock to compare EC2's times with; nil is time.Now.
	Now func() time.Time
	// Serial runs steps one after another instead of overlapping independent ones.
	Serial bool
	// WaitApply waits for every store's log before the flashback; see resolve.Config.
	WaitApply bool
	// Flashback is which regions are flashed back; empty is FlashbackAuto.
	Flashback FlashbackPolicy
	// CheckUnchanged is how many unchanged regions are flashed back anyway, to check that nothing changes.
	CheckUnchanged int
	// PDState is what to do with the backup's PD state; empty is RestorePDState.
	PDState PDStatePolicy
	// TiFlash is what to do if the source had TiFlash stores; empty reports it.
	TiFlash preflight.TiFlashPolicy
	// OnTasks is what to do about log backups and changefeeds of the target; empty is TasksReport.
	OnTasks OnTasks
	// LockWait bounds how long another run's lock on the target is watched, to find out whether that run is alive; zero
	// is 90 s, and runlock.NoWait refuses at once.
	LockWait time.Duration
	// AliveWait is how long to wait, beyond that, for the lock of a live run; zero refuses. For unattended callers such
	// as the Operator's Jobs.
	AliveWait time.Duration
	// TolerateStores are the backup's stores without which the cluster is brought up, if every region has a quorum on
	// the others. Their volumes are made: a store that comes up later catches up by itself.
	TolerateStores []cluster.StoreID
	// BreakLock breaks the lock of a run known to be dead. Only Resolve uses it.
	BreakLock bool
}

// withDefaults fills in the defaults.
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

// ofVolumes returns the options about volumes; br is for a run whose volumes TiDB Operator binds.
func (o *Options) ofVolumes(br bool) volumes.Options {
	return volumes.Options{
		Spec: o.Volume, Zone: o.Zone, Zones: o.Zones, KMSKey: o.KMSKey, Encrypt: o.Encrypt, Scope: o.Scope,
		KeepTags: o.KeepTags, Tags: o.Tags, InitializationMiB: o.InitializationMiB, FastRestore: o.FastRestore,
		After: o.After, Account: o.Account, BR: br, Timeout: o.Timeout, Visibility: o.Visibility, Poll: pollInterval,
		Now: o.Now,
	}
}
