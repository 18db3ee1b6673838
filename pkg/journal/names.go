package journal

// Steps of a backup that another step, `tisnap release` or a retry of the hold refers to.
const (
	// StepEarlyApply keeps leaders from applying what their own logs do not have: from its begin on stores may be set
	// so.
	StepEarlyApply = "early-apply"
	// StepReadReplicas reads where all replicas are; an attempt at the hold begins with it, if there is one.
	StepReadReplicas = "read-replicas"
	// StepMarks reads where the regions' logs end; an attempt at the hold begins with it, if there is one.
	StepMarks    = "marks"
	StepConnect  = "connect" // opens a stream to every store; with it an attempt at the hold begins
	StepHold     = "hold"    // from its begin on the cluster may be held
	StepHoldGC   = "hold-gc"
	StepBackupTS = "backup-ts"
	StepCut      = "cut"     // from its begin on snapshots may exist
	StepRelease  = "release" // at its end the cluster is released
	StepRecord   = "record"
	StepSeal     = "seal" // from its end on the backup can be restored
	// StepReleaseAgain is after the seal: at its end the cluster is released, whatever StepRelease had to leave.
	StepReleaseAgain = "release-again"
)

// Steps of a restore that another step or gc refers to.
const (
	StepCreateCluster = "create-cluster"
	StepCreateVolumes = "create-volumes"
	StepBindVolumes   = "bind-volumes" // from its begin on persistent volumes may name the volumes
	// StepHandOver is StepBindVolumes for a restore whose volumes are bound externally.
	StepHandOver         = "hand-over-volumes"
	StepFreezeScheduling = "freeze-scheduling"
	StepFindAhead        = "find-ahead" // at its end it is known which replicas are ahead of their raft logs
	StepRecover          = "recover"
	StepRebuild          = "rebuild-replicas" // at its end no replica is ahead of its region's log any more
	StepAwaitLeaders     = "await-leaders"    // from its end on the volumes hold live data
)

// Steps of a restore from an archive.
const (
	StepWriteSnapshots  = "write-snapshots"  // from its begin on snapshots may exist
	StepDeleteSnapshots = "delete-snapshots" // at its end they are gone
)

// StepFillVolumes is of a restore from an archive straight to volumes of a CSI driver: from its begin on claims, and
// Jobs which fill them, may exist.
const StepFillVolumes = "fill-volumes"

// IntentFillVolumes is what a restore straight to volumes is about to do; data: FillVolumes.
const IntentFillVolumes = "fill-volumes"

// Names of a restore's records about an archive's snapshots.
const (
	IntentWriteSnapshots = "write-snapshots"
	ResultPut            = "put" // data: Put
)

// Steps of an archive.
const (
	StepChoose = "choose"         // at its end the archive's id and base are fixed
	StepRead   = "read-blocks"    // from its begin on packs may be in the repository
	StepCommit = "commit-archive" // from its begin on the archive may exist
)

// Steps of a copy.
const (
	StepShare = "share"          // from its begin on the target's account may read the snapshots
	StepCopy  = "copy-snapshots" // from its begin on copies may exist
)

// Steps of a drill.
const (
	StepCage     = "make-cage" // from its begin on anything of the drill may exist, until it is undone
	StepTearDown = "tear-down" // at its end nothing of it does
)

// Names of a drill's records.
const (
	IntentCage   = "make-cage"     // data: Cage, without its UID
	ResultCage   = "cage"          // data: Cage
	IntentTarget = "restore-drill" // data: DrillTarget
	ResultChecks = "checks"        // data: what was checked, and what was found
)

// StepLock is the step that takes the cluster's lock, in every run.
const StepLock = "lock"

// Names of intents: what a run is about to do.
const (
	IntentEarlyApply      = "turn-off-early-apply" // data: what the stores were set to, by store
	IntentLeases          = "take-leases"          // data: Leases; the first of a hold, before anything is paused
	IntentSchedulers      = "pause-schedulers"     // data: the schedulers' names
	IntentLimits          = "lower-limits"         // data: the config items' names
	IntentCreateSnapshots = "create-snapshots"
	IntentCreateVolumes   = "create-volumes"
	IntentFastRestore     = "enable-fast-restore" // data: FastRestore
	IntentLeaveRecovery   = "leave-recovery"      // of a restore or resolve: its data are resolved; data: LeftRecovery
	IntentPacks           = "write-packs"         // of an archive; data: the seed of their names
	IntentShare           = "share-snapshots"     // of a copy; data: the snapshots that were not shared before
	IntentCopySnapshots   = "copy-snapshots"      // data: the snapshots of which a copy is asked for
)

// Names of results: the outcome of an effect.
const (
	ResultBackupTS       = "backup-ts"        // data: BackupTS
	ResultSnapshots      = "snapshots"        // data: the snapshots' ids
	ResultVolume         = "volume"           // data: Volume
	ResultAvailable      = "available"        // data: the volumes that EC2 has shown as available since the last one
	ResultEarlyApplyBack = "early-apply-back" // the stores are set to what IntentEarlyApply records
	// of StepRelease: it ended although PD was not released; data: the reason
	ResultStillHeld        = "still-held"
	ResultFastRestoreEnded = "fast-restore-disabled"
	// ResultServes, of a restore: users may use the cluster, so that its volumes hold live data.
	ResultServes = "serves"
	// ResultSegment, of an archive: all packs that hold the segment's blocks are stored; data: its name and
	// what was read for it
	ResultSegment = "segment"
	// ResultCopy, of a copy: EC2 has accepted it; data: CopiedSnapshot
	ResultCopy = "copy"
	// ResultCopied, of a copy: EC2 has shown it as completed; data: CopiedSnapshot
	ResultCopied = "copied"
	ResultAhead  = "ahead" // of StepFindAhead; data: the replicas that are ahead of their own logs
	// ResultExpected, of the checks: how long the run should take, as announced; data: the report's field.
	ResultExpected     = "expected"
	ResultLeftRecovery = "left-recovery" // of older versions, in place of IntentLeaveRecovery
)
