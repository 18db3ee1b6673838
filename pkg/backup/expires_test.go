package backup

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

func TestHeldUntil_LatestHoldOfTheJournal(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	begin := func(minute int) phase.Record {
		return phase.Record{Type: phase.RecordBegin, Step: journal.StepHold, Time: start.Add(time.Duration(minute) * time.Minute)}
	}
	leases := func(minute int, data string) phase.Record {
		return phase.Record{Type: phase.RecordIntent, Step: journal.StepHold, Name: journal.IntentLeases, Data: json.RawMessage(data), Time: start.Add(time.Duration(minute) * time.Minute)}
	}
	until := func(records []phase.Record) time.Time { return heldUntil(journal.ReadFacts(records).Backup.Holds) }
	const usual = `{"leaseSeconds":30,"maxHoldSeconds":120}`
	older := journalAge + clockMargin
	for name, row := range map[string]struct {
		records []phase.Record
		want    time.Duration // after start
	}{
		"the leases are known":           {[]phase.Record{begin(0), leases(0, usual)}, 5*time.Minute + clockMargin},
		"the last attempt counts":        {[]phase.Record{begin(0), leases(0, usual), begin(10), leases(10, usual)}, 15*time.Minute + clockMargin},
		"an earlier one lasts longer":    {[]phase.Record{begin(0), leases(0, `{"leaseSeconds":600,"maxHoldSeconds":3600}`), begin(10), leases(10, usual)}, 140*time.Minute + clockMargin},
		"killed before the leases":       {[]phase.Record{begin(0)}, older},
		"of an older version":            {[]phase.Record{begin(0), {Type: phase.RecordIntent, Step: journal.StepHold, Name: journal.IntentLimits, Data: json.RawMessage(`[]`), Time: start}}, older},
		"an older version, and this one": {[]phase.Record{begin(0), begin(10), leases(10, usual)}, older},
		"what cannot be read":            {[]phase.Record{begin(0), leases(0, `[]`)}, older},
		"no time at all":                 {[]phase.Record{begin(0), leases(0, `{"leaseSeconds":30}`)}, older},
		"data dropped":                   {[]phase.Record{begin(0), leases(0, ``)}, older},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, start.Add(row.want), until(row.records))
		})
	}
	require.True(t, until(nil).Before(start), "it held nothing")
	require.True(t, until([]phase.Record{begin(0), leases(0, `{"leaseSeconds":1e300,"maxHoldSeconds":1e300}`)}).After(start.AddDate(10, 0, 0)))
}
