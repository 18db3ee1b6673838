package restore

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// What was done with the regions is in the report of the run, whichever of its processes did it.
func TestRegionsDone_ByAnEarlierProcess(t *testing.T) {
	t.Parallel()
	regions := journal.ResolvedRegions{Total: 6, Unchanged: 4, Flashed: 2, SavedSeconds: 3}
	body, err := json.Marshal(journal.LeftRecovery{ClusterID: 7, Regions: regions})
	require.NoError(t, err)
	left := phase.Record{Type: phase.RecordIntent, Step: "leave-recovery", Name: journal.IntentLeaveRecovery, Data: body}
	older := phase.Record{Type: phase.RecordResult, Step: "leave-recovery", Name: journal.ResultLeftRecovery, Data: body}
	for name, row := range map[string]struct {
		records []phase.Record
		want    journal.ResolvedRegions
	}{
		"it had resolved the data":        {[]phase.Record{left}, regions},
		"of an older version":             {[]phase.Record{older}, regions},
		"it had not":                      {nil, journal.ResolvedRegions{}},
		"it was undone since":             {[]phase.Record{left, {Type: phase.RecordRetryGroup, Data: json.RawMessage(`[]`)}}, journal.ResolvedRegions{}},
		"a version that noted no regions": {[]phase.Record{{Type: phase.RecordResult, Name: journal.ResultLeftRecovery, Data: json.RawMessage(`{"clusterID":"7"}`)}}, journal.ResolvedRegions{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{}, Options{}, byRun)
			r.earlier = readEarlier(&phase.History{Records: row.records}, false)
			require.Equal(t, row.want, r.regionsDone())
		})
	}
}
