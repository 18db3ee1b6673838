package report_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestOnlyChecked_BeforeTheFirstEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome phase.Outcome
		steps   []string
		want    bool
	}{
		"nothing ran":             {phase.Failed, nil, true},
		"preflight failed":        {phase.Failed, []string{"load", "preflight"}, true},
		"somebody has the lock":   {phase.Failed, []string{"preflight", "lock"}, true},
		"the cluster was held":    {phase.Failed, []string{"preflight", "lock", "hold"}, false},
		"a run that is done":      {phase.Done, []string{"load", "preflight"}, false},
		"only steps of a resolve": {phase.Failed, []string{"load", "find-cluster"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var steps []phase.StepTiming
			for _, s := range c.steps {
				steps = append(steps, step(s, 1))
			}
			r := report.New(report.Header{Operation: report.Restore, Outcome: c.outcome}, phase.Timings{timing("create cluster", 1, steps...)})
			assert.Equal(t, c.want, r.OnlyChecked())
		})
	}
}
