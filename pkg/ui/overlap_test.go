package ui_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// Of phases at the same time the one that began first is shown, then the one that is left; of steps likewise.
func TestPlain_PhasesOverlap_ShowsTheFirstThatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.Plain, nil), func(p *ui.Progress) {
			p.Emit(event(phase.PhaseStarted, "create cluster", ""))
			p.Emit(event(phase.StepStarted, "create cluster", "await-pd"))
			p.Emit(event(phase.PhaseStarted, "restore volumes", ""))
			p.Emit(event(phase.StepStarted, "restore volumes", "create-volumes"))
			p.Emit(progress("create cluster", "await-pd", 1, 3, "members"))
			p.Emit(progress("restore volumes", "create-volumes", 5, 20, "volumes"))
			p.Emit(event(phase.StepStarted, "restore volumes", "bind"))
			wait(31 * time.Second)
			p.Emit(finished("create cluster", 31*time.Second, phase.Done))
			wait(31 * time.Second)
		})
		var status []string
		for line := range strings.Lines(text) {
			if strings.Contains(line, "running for") {
				status = append(status, strings.TrimSpace(line[len("2000-01-01T00:00:00Z "):]))
			}
		}
		assert.Equal(t, []string{
			"create cluster: await-pd: 1/3 members (33%), running for 30s",
			"restore volumes: create-volumes: 5/20 volumes (25%), running for 1m1s",
		}, status)
	})
}
