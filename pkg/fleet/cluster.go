package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

const gib = 1 << 30

// Cluster is the state of one cluster.
type Cluster struct {
	Name   cluster.Name
	States map[catalog.State]int
	Sealed *catalog.Entry                    // the newest sealed backup
	Last   map[report.Operation]*history.Run // the last that ended
	Count  map[report.Operation]map[string]int
	Kinds  map[report.Operation]map[string]int // of failed runs
	Done   []*history.Run                      // runs of backups that were done, the oldest first

	Snapshots int
	SizeGiB   int64
	// LargestBytes is the data of the largest sealed backup, DataBytes that of all; where it is unknown, the volumes'
	// size.
	LargestBytes, DataBytes int64
}

// Operations are those whose runs are counted.
func Operations() []report.Operation {
	return []report.Operation{report.Backup, report.Restore, report.Resolve}
}

func (c *Cluster) addBackup(e *catalog.Entry) {
	c.States[e.State]++
	if e.State != catalog.StateSealed {
		return
	}
	c.Snapshots += e.Snapshots
	c.SizeGiB += e.SizeGiB
	c.LargestBytes = max(c.LargestBytes, e.DataBytes)
	c.DataBytes += cmp.Or(e.DataBytes, e.SizeGiB*gib)
	if c.Sealed == nil || e.SealedAt.After(c.Sealed.SealedAt) {
		c.Sealed = e
	}
}

func (c *Cluster) addRun(r *history.Run) {
	op := r.Operation
	if !slices.Contains(Operations(), op) {
		return // of a newer version
	}
	c.counted(op, string(r.Outcome))
	if r.ErrorKind != "" {
		if c.Kinds[op] == nil {
			c.Kinds[op] = map[string]int{}
		}
		c.Kinds[op][knownKind(r.ErrorKind)]++
	}
	if last := c.Last[op]; last == nil || !r.Finished.Before(last.Finished) {
		c.Last[op] = r
	}
	if op == report.Backup && r.ErrorKind == "" {
		c.Done = append(c.Done, r)
	}
}

func (c *Cluster) counted(op report.Operation, outcome string) {
	if c.Count[op] == nil {
		c.Count[op] = map[string]int{}
	}
	c.Count[op][outcome]++
}

// LastFailed reports whether the newest of the cluster's runs of these kinds failed.
func (c *Cluster) LastFailed(of ...report.Operation) bool {
	var last *history.Run
	for _, op := range of {
		if r := c.Last[op]; r != nil && (last == nil || r.Finished.After(last.Finished)) {
			last = r
		}
	}
	return last != nil && last.Outcome == phase.Failed
}

// RestoredOnly reports whether no backup of the cluster was ever attempted.
func (c *Cluster) RestoredOnly() bool {
	return len(c.States) == 0 && len(c.Count[report.Backup]) == 0
}

// active is the time of the cluster's last activity.
func (c *Cluster) active() time.Time {
	var last time.Time
	for _, r := range c.Last {
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	if c.Sealed != nil && c.Sealed.SealedAt.After(last) {
		last = c.Sealed.SealedAt
	}
	return last
}

// knownKind maps a kind of error to one that this version knows: a storage may contain anything.
func knownKind(kind string) string {
	for k := failure.Unknown; k <= failure.Corrupt; k++ {
		if k.String() == kind {
			return kind
		}
	}
	return failure.Unknown.String()
}
