package estimate

import (
	"math"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/report"
)

// The published backup table, in bytes per second and volume. Its rows of 100 and 200 GB are for 500 GB volumes, those
// of 500 and 1,024 GB for larger ones; the row of 50 GB fits neither and is left out.
const (
	snapshotRateSmall = 33.3e6
	snapshotRateLarge = 52.0e6
	smallVolumeGiB    = 512
)

// The published restore tables, in seconds. The largest case gives the parts for gp3 with 7,000 IOPS and 400 MB/s
// without load; the table by volume, with load, gives what grows with the data.
const (
	createClusterSeconds  = 60
	restoreVolumesSeconds = 6
	startTiKVSeconds      = 190
	startTiDBSeconds      = 60
	resolvePerGB          = 786.0 / 1050 // 21 TB on 20 stores
	flashbackPart         = 0.96         // of resolve data: not published, but measured by make bench SUITE=restore
	recoverLogsSeconds    = 640          // RocksDB's recovery after a backup under load
	recoverLogsPerGB      = 260.0 / 1050
)

// The effect of the volumes' profile, from the published times of start TiKV (30 min at 3,000 IOPS and 125 MB/s, 5 min
// on io2) and of resolve data (20 min at 3,000 and 125), as exponents of the ratio to the largest case.
const (
	caseIOPS, caseMiB   = 7000, 400
	gp3IOPS, gp3MiB     = 3000, 125
	recoverIOPSPower    = 0.69
	recoverMiBPower     = 0.505
	resolveIOPSPower    = 0.50
	resolveMiBPower     = 0.365
	io2Recover          = 0.1
	io2Resolve          = 0.5 // not published: assumed
	initializedFactor   = 0.5 // not published: assumed for volumes filled before or while they are read
	fastRestorePerGiB   = 3600.0 / 1024
	createVolumesBucket = 100
	createVolumesRate   = 5
)

// Of a backup's phases only the snapshots are published; these are tisnap's times on its testbed with EC2's answers of
// up to 2 s, in seconds.
const (
	createTaskSeconds      = 5
	pauseSchedulingSeconds = 0.5
	pauseGCSeconds         = 0.1
	backupTSSeconds        = 2
	cutSeconds             = 2
	sealSeconds            = 1
)

// phases returns the model's seconds of each phase, in order. In a restore, unchanged is the share of the regions, 0 to
// 1, that are not flashed back.
func phases(in Input, unchanged float64) []Phase {
	if in.Operation == report.Backup {
		return backupPhases(in)
	}
	return restorePhases(in, unchanged)
}

func backupPhases(in Input) []Phase {
	rate := snapshotRateSmall
	if in.Spec.SizeGiB > smallVolumeGiB {
		rate = snapshotRateLarge
	}
	copying := in.changed() / rate
	return []Phase{
		{Name: report.CreateTask, Seconds: createTaskSeconds},
		{Name: report.PauseScheduling, Seconds: pauseSchedulingSeconds},
		{Name: report.PauseGC, Seconds: pauseGCSeconds},
		{Name: report.GetBackupTS, Seconds: backupTSSeconds},
		{Name: report.VolumeSnapshots, Seconds: cutSeconds + paced(in.Stores) + copying, grows: copying},
		{Name: "seal", Seconds: sealSeconds},
	}
}

// changed is what a backup copies off the fullest volume, in bytes.
func (in Input) changed() float64 {
	return float64(in.LargestBytes) * float64(in.ChangedBytes) / float64(in.DataBytes)
}

func restorePhases(in Input, unchanged float64) []Phase {
	gb := float64(in.LargestBytes) / GB
	recovery := 0.0
	if in.Writes {
		recovery = (recoverLogsSeconds + recoverLogsPerGB*gb) * recoverFactor(in)
	}
	var out []Phase
	if in.FastRestore {
		enable := float64(in.LargestBytes>>30) * fastRestorePerGiB
		out = append(out, Phase{Name: "enable fast restore", Seconds: enable, grows: enable})
	}
	wait := waves(in)
	resolve := resolvePerGB * gb * resolveFactor(in) * (1 - flashbackPart*unchanged)
	return append(out,
		Phase{Name: report.CreateCluster, Seconds: createClusterSeconds},
		Phase{Name: report.RestoreVolumes, Seconds: restoreVolumesSeconds + paced(in.Volumes) + wait, grows: wait},
		Phase{Name: report.StartTiKV, Seconds: startTiKVSeconds + recovery, grows: recovery},
		Phase{Name: report.ResolveData, Seconds: resolve, grows: resolve},
		Phase{Name: report.StartTiDB, Seconds: startTiDBSeconds},
	)
}

// paced is the delay by EC2's request bucket, which allows a burst of calls and then a rate per second.
func paced(calls int) float64 {
	return max(float64(calls-createVolumesBucket)/createVolumesRate, 0)
}

// waves is how long volumes wait for others to be filled, because EC2 limits the sum of rates per region.
func waves(in Input) float64 {
	if in.InitializationMiB <= 0 {
		return 0
	}
	rate := min(in.InitializationMiB, max(ebs.InitializationRateSum/int64(in.Volumes), ebs.MinInitializationRate))
	together := ebs.InitializationRateSum / rate
	before := (int64(in.Volumes) - 1) / together
	return float64(before) * float64(in.LargestBytes) / float64(rate<<20)
}

func recoverFactor(in Input) float64 {
	return factor(in, recoverIOPSPower, recoverMiBPower, io2Recover)
}

func resolveFactor(in Input) float64 {
	return factor(in, resolveIOPSPower, resolveMiBPower, io2Resolve)
}

// factor is how much longer reading the volumes takes than in the published case: the scarcer resource determines it.
func factor(in Input, byIOPS, byMiB, io2 float64) float64 {
	f := math.Pow(caseIOPS/float64(max(in.Spec.IOPS, 1)), byIOPS)
	switch {
	case in.Spec.Type == "io2":
		f = io2
	case in.Spec.Type == "io1" && in.Spec.IOPS == 0:
		f = 1
	case in.Spec.ThroughputMiB > 0:
		f = max(f, math.Pow(caseMiB/float64(in.Spec.ThroughputMiB), byMiB))
	}
	if in.FastRestore || in.InitializationMiB > 0 {
		f *= initializedFactor
	}
	return f
}
