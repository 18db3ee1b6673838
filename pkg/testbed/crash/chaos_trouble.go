package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// troubles are calls of each system that the program makes and the load beside it does not, with about how often a round
// makes them.
func troubles(operator int) []map[string]int {
	kube := map[string]int{"kube.get.tidbclusters": 10, "kube.create.tidbclusters": 1}
	if operator == 2 {
		kube = map[string]int{"kube.get.clusters": 10, "kube.create.clusters": 1, "kube.create.tikvs": 3, "kube.update.clusters": 2}
	}
	maps.Copy(kube, map[string]int{"kube.list.pods": 10, "kube.create.persistentvolumes": 6, "kube.create.persistentvolumeclaims": 6})
	return []map[string]int{
		{"s3.PutObject": 60, "s3.GetObject": 60, "s3.ListObjectsV2": 10},
		{"ec2.CreateSnapshots": 4, "ec2.DescribeSnapshots": 5, "ec2.CreateVolume": 6, "ec2.DescribeVolumes": 10, "ec2.DescribeInstances": 4},
		{"pd.PauseScheduler": 8, "pd.SetTTLConfig": 4, "pd.UpdateServiceGCSafePoint": 3, "pd.DropTTLConfig": 2, "pd.ResumeScheduler": 4, "pd.RaiseAllocID": 1, "pd.UnmarkRecovering": 1},
		{"tikv.*.PrepareSnapshotBackup.UpdateLease": 5, "tikv.*.SuspendImportRPC": 5, "tikv.*.ReadRegionMeta": 3, "tikv.*.RecoverRegion": 3, "tikv.*.KvFlashbackToVersion": 10},
		kube,
	}
}

// drawFaults makes one fault of each system: refused, or slow, or done with the answer lost.
func drawFaults(rng *rand.Rand, operator int) []fault.Rule {
	var out []fault.Rule
	for _, system := range troubles(operator) {
		points := sortedKeys(system)
		point := points[rng.IntN(len(points))]
		rule := fault.Rule{Point: point, Nth: 1 + rng.IntN(system[point]), Times: 1 + rng.IntN(2)}
		switch rng.IntN(3) {
		case 0:
			rule.Position = fault.Before
		case 1:
			rule.Position = fault.After
		default:
			rule.Position, rule.Delay = fault.Slow, time.Duration(50+rng.IntN(500))*time.Millisecond
		}
		out = append(out, rule)
	}
	return out
}

// end kills a process, or asks it to stop, at one of its journal's records or of its effects.
type end struct {
	signal   syscall.Signal
	at       *regexp.Regexp
	nth      int
	position fault.Position

	mu   sync.Mutex
	seen int
	send func(syscall.Signal)
}

// drawEnd makes one, of a run with about so many records.
func drawEnd(rng *rand.Rand, records int) *end {
	e := &end{signal: syscall.SIGKILL, at: regexp.MustCompile(`^journal\.`), nth: 1 + rng.IntN(records)}
	if rng.IntN(2) == 0 {
		e.at = effects()
	}
	if rng.IntN(5) == 0 {
		e.signal = syscall.SIGTERM
	}
	e.position = []fault.Position{fault.After, fault.Stall, fault.Slow}[rng.IntN(3)]
	if e.signal == syscall.SIGTERM {
		e.position = fault.Slow // a process that stops in an orderly way needs its answers
	}
	return e
}

// String is for the reader of a failed round.
func (e *end) String() string {
	return fmt.Sprintf("%s at call %d of %s (%s)", e.signal, e.nth, e.at, e.position)
}

// watch is the plan's watcher.
func (e *end) watch(point string) *fault.Rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.at.MatchString(point) {
		return nil
	}
	if e.seen++; e.seen != e.nth {
		return nil
	}
	return &fault.Rule{Position: e.position, Do: func() { e.send(e.signal) }}
}
