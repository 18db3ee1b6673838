package report_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
)

// A run whose first process died in its volumes, and whose second one took over an hour later.
func TestReport_OfARunThatWasResumed_ShowsItsProcessesAndGaps(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	again := start.Add(time.Hour)
	h := report.Header{
		Operation: report.Restore, Run: "r", Backup: "b", Outcome: phase.Done, Started: again, Finished: again.Add(100 * time.Second),
		Processes: []phase.Process{{Start: start, End: start.Add(60 * time.Second), Seconds: 50, Step: "create-volumes"}},
	}
	r := report.New(h, phase.Timings{
		{Phase: "create cluster", Start: start, Seconds: 45, Outcome: phase.Done, Steps: []phase.StepTiming{
			{Name: "create-cluster", Start: start, Seconds: 40, Outcome: phase.Skipped}, {Name: "await-pd", Start: again, Seconds: 5, Outcome: phase.Done},
		}},
		{Phase: "restore volumes", Start: again.Add(5 * time.Second), Seconds: 95, Outcome: phase.Done, Steps: []phase.StepTiming{
			{Name: "create-volumes", Start: again.Add(5 * time.Second), Seconds: 95, Outcome: phase.Done},
		}},
	})
	assert.InDelta(t, 140, r.TotalSeconds, 0.001, "the steps of both processes, by their monotonic clocks")
	assert.InDelta(t, 3700, r.WallSeconds, 0.001)
	require.Len(t, r.Processes, 2)
	assert.InDelta(t, 100, r.Processes[1].Seconds, 0.001)
	assert.InDelta(t, 3540, r.Processes[1].GapSeconds, 0.001)
	assert.InDelta(t, 150, r.InSteps(), 0.001)

	var text, doc, page bytes.Buffer
	require.NoError(t, r.Table(&text, report.TableOptions{}))
	require.NoError(t, r.JSON(&doc))
	require.NoError(t, htmlreport.Write(&page, htmlreport.Page{Reports: []*report.Report{r}}))
	assert.Contains(t, text.String(), "process 1: 2026-01-02T03:00:00Z to 2026-01-02T03:01:00Z")
	assert.Contains(t, text.String(), "ended in create-volumes")
	for form, b := range map[string]string{"table": text.String(), "html": page.String()} {
		assert.Contains(t, b, "resumed: 2 processes, "+report.Duration(150)+" in steps, "+report.Duration(3700)+" from the first start", form)
		assert.Contains(t, b, report.Duration(3540), form)
	}
	assert.Contains(t, page.String(), "Processes of the run")
	back, err := report.Decode(&doc)
	require.NoError(t, err)
	assert.Equal(t, r.Processes, back.Processes)
	assert.InDelta(t, 3700, back.WallSeconds, 0.001)
}

func TestReport_OfOneProcess_OmitsProcesses(t *testing.T) {
	t.Parallel()
	r := report.New(report.Header{Operation: report.Backup, Outcome: phase.Done}, nil)
	var text, doc bytes.Buffer
	require.NoError(t, r.Table(&text, report.TableOptions{}))
	require.NoError(t, r.JSON(&doc))
	assert.NotContains(t, text.String(), "process")
	assert.NotContains(t, doc.String(), "processes")
	assert.NotContains(t, doc.String(), "wallSeconds")
}
