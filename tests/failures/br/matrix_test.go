package br_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// whole is the variable that makes the matrix whole, as `make crash SUITE=br` does; without it a sample is played.
const whole = "BR_CRASH"

// killed are the places at which a backup is killed: when the record that a step begins, or is done, is on its way.
func killed() []string {
	if os.Getenv(whole) == "" {
		return []string{"journal.begin.hold", "journal.done.cut", "journal.done.record", "journal.done.seal"}
	}
	var points []string
	for _, s := range backup.Outline() {
		if s.ReadOnly || slices.Contains([]string{"marks", "await-pending"}, s.Name) {
			continue
		}
		points = append(points, "journal.begin."+s.Name, "journal.done."+s.Name)
	}
	return points
}

// br is killed at each step of a backup, and run again as the Operator's next Job does: then there is one backup, it is whole,
// its snapshots are all there are, and nothing is held or locked.
// Catalogue: H1.
func TestBackupKilledAtEachStep_NextJobLeavesOneWholeBackup(t *testing.T) {
	t.Parallel()
	for _, point := range killed() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.launchBackup(t, fault.Rule{Point: point, Position: fault.Stall, Times: -1}).kill(t)
			p.faults.Clear()
			p.ageLock(t)
			p.requireCompletes(t)
			body, _, err := p.store(t).Get(t.Context(), manifest.LockKey(prod))
			require.NoError(t, err)
			var lock runlock.Record
			require.NoError(t, json.Unmarshal(body, &lock))
			require.True(t, lock.Released, "%s", body)
		})
	}
}

// ageLock leaves the lock of a killed process as one that renewed it each second, an hour ago: whether it is dead is found out
// in seconds, not in a minute. One that was killed before it had the lock has none.
func (p *place) ageLock(t *testing.T) {
	t.Helper()
	store, key := p.store(t), manifest.LockKey(prod)
	body, _, err := store.Get(t.Context(), key)
	if failure.Is(err, failure.NotFound) {
		return
	}
	require.NoError(t, err)
	var record runlock.Record
	require.NoError(t, json.Unmarshal(body, &record))
	record.RenewSeconds, record.RenewedAt = 1, record.RenewedAt.Add(-time.Hour)
	body, err = json.Marshal(record)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), key))
	_, err = store.Create(t.Context(), key, body)
	require.NoError(t, err)
}
