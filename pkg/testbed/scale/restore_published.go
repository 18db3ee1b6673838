package scale

import "time"

// The published case, 21 TB on 20 TiKVs: https://docs.pingcap.com/tidb-in-kubernetes/stable/volume-snapshot-backup-restore-performance.
const (
	publishedStores = 20
	publishedTotal  = 18*time.Minute + 16*time.Second
	// PublishedRegions is how many regions so many data have, of some 96 MiB a replica.
	PublishedRegions = 50_000
)

// How long the model's systems take for what a restore waits for, in the model's time. All but the first heartbeat and
// what follows the restart, which were measured on a real TiKV 8.5, are the published phases of the case.
const (
	modelPD      = 60 * time.Second // from the TidbCluster to a PD that answers
	modelVolumes = 6 * time.Second  // from CreateVolume to an available volume
	// From the start of a TiKV pod to a store that answers, and from there to its first report, after which PD has it up:
	// together the published 190 s.
	modelTiKV      = 180 * time.Second
	modelHeartbeat = 10 * time.Second
	// From the end of the data phase to a TiDB that serves are the published 60 s: TiKV's restart, and then TiDB, beside
	// which raft elects its leaders.
	modelRestart  = 5600 * time.Millisecond
	modelTiDB     = 60*time.Second - modelRestart
	modelElection = 13700 * time.Millisecond
	// A store reads in so long what a flashback of all regions that it leads walks: 314 GB at 400 MB/s. So the published
	// 786 s of the data phase are all reading, and what tisnap itself needs comes on top.
	modelWalk = 786 * time.Second
	// modelCall is what a prepare, a scan for locks or a flashback takes beside the reading; a store works on modelSlots at
	// once.
	modelCall  = 5 * time.Millisecond
	modelSlots = 16
)

// leastSeconds is how long a restore waits for the model's systems whatever tisnap does: PD comes before TiKV, that
// before the data, and those before TiDB.
func leastSeconds(changed float64) float64 {
	walk := time.Duration(changed * float64(modelWalk))
	return (max(modelPD, modelVolumes) + modelTiKV + walk + modelRestart + max(modelTiDB, modelElection)).Seconds()
}
