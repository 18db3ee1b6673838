package fleet

import (
	"time"

	"github.com/tisnap/tisnap/pkg/history"
)

// How much of the past is the cadence of a cluster's backups: at least two gaps between them, and at most the last ten,
// so that a new schedule soon counts.
const (
	minGaps = 2
	maxGaps = 10
)

// RecoveryPoint returns the time that a restore of the newest sealed backup returns to; zero without one. PD's clock
// may be ahead, but no backup has data from after its seal.
func (c *Cluster) RecoveryPoint() time.Time {
	if c.Sealed == nil {
		return time.Time{}
	}
	at := c.Sealed.BackupTS.Time()
	if sealed := c.Sealed.SealedAt; at.After(sealed) {
		return sealed
	}
	return at
}

// Expected returns when the next recovery point is due: the newest one plus the median of the last gaps between the
// starts of backups that were done, deleted ones included. It is zero without a sealed backup, or for fewer than three.
func (c *Cluster) Expected() time.Time {
	at, gap := c.RecoveryPoint(), c.cadence()
	if at.IsZero() || gap == 0 {
		return time.Time{}
	}
	return at.Add(gap)
}

// Overdue reports whether the next recovery point is late by more than a quarter of the cadence, and no live run has
// the cluster's lock.
func (c *Cluster) Overdue(now time.Time) bool {
	due := c.Expected()
	return !due.IsZero() && !c.Live() && now.After(due.Add(c.cadence()/4))
}

func (c *Cluster) cadence() time.Duration {
	done := c.Done()
	done = done[max(len(done)-maxGaps-1, 0):]
	if len(done) <= minGaps {
		return 0
	}
	gaps := make([]float64, len(done)-1)
	for i := range gaps {
		gaps[i] = done[i+1].Started.Sub(done[i].Started).Seconds()
	}
	return time.Duration(history.Median(gaps) * float64(time.Second))
}
