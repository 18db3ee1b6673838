package report

import "math"

// The phases of the published performance tables, by their published names.
const (
	CreateTask      = "create task"
	PauseScheduling = "pause scheduling"
	PauseGC         = "pause GC"
	GetBackupTS     = "get backup ts"
	VolumeSnapshots = "volume snapshots"

	CreateCluster  = "create cluster"
	RestoreVolumes = "restore volumes"
	StartTiKV      = "start TiKV"
	ResolveData    = "resolve data"
	StartTiDB      = "start TiDB"
)

// PublishedPhases are the phases of the operation's published table, in its order; none for an archive, a copy or a
// drill.
func PublishedPhases(o Operation) []string {
	switch o {
	case Archive, Copy, Drill:
		return nil
	case Restore:
		return restorePhases()
	case Resolve:
		return restorePhases()[3:]
	default:
		return backupPhases()
	}
}

func backupPhases() []string {
	return []string{CreateTask, PauseScheduling, PauseGC, GetBackupTS, VolumeSnapshots}
}

func restorePhases() []string {
	return []string{CreateCluster, RestoreVolumes, StartTiKV, ResolveData, StartTiDB}
}

const (
	gigabyte = 1_000_000_000
	terabyte = 1000 * gigabyte
)

// publishedRestore is the largest published case: gp3, 7,000 IOPS, 400 MB/s, one zone, no load during the backup. Its
// parts add up to 18m22s, but the published total is 18m16s.
func publishedRestore() *Report {
	seconds := []float64{60, 6, 190, 786, 60}
	r := &Report{
		Header: Header{
			Operation: Restore, TiKVs: 20, Volumes: 20, DataBytes: 21 * terabyte, DataPerVolumeBytes: terabyte,
		},
		TotalSeconds: 18*60 + 16,
	}
	for i, name := range restorePhases() {
		r.Phases = append(r.Phases, Phase{Name: name, Seconds: seconds[i], Share: r.share(seconds[i])})
	}
	return r
}

// publishedBackup is one row of the published backup times.
type publishedBackup struct {
	dataGB   int64 // per volume
	settings string
	minutes  float64
}

// nearestBackup is the published row with the nearest data per volume, by ratio.
func nearestBackup(dataPerVolume int64) publishedBackup {
	rows := []publishedBackup{
		{50, "125 MiB/s, 3,000 IOPS", 20},
		{100, "125 MiB/s, 3,000 IOPS", 50},
		{200, "125 MiB/s, 3,000 IOPS", 100},
		{500, "125 MiB/s, 3,000 IOPS", 150},
		{1024, "125 MiB/s, 7,000 IOPS", 350},
	}
	best, distance := rows[0], math.Inf(1)
	for _, row := range rows {
		d := math.Abs(math.Log(float64(dataPerVolume) / float64(row.dataGB*gigabyte)))
		if d < distance {
			best, distance = row, d
		}
	}
	return best
}
