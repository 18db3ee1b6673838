package ui_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// Snapshots are counted in percent of each: six of them are 600 in all, a figure that must not be shown.
func TestPercentOfEach_IsPercentOfAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		done, total int64
		want        string
	}{
		"some":  {375, 600, "volume snapshots: wait: 62% of 6 snapshots, running for 30s\n"},
		"none":  {0, 600, "volume snapshots: wait: 0% of 6 snapshots, running for 30s\n"},
		"all":   {600, 600, "volume snapshots: wait: 100% of 6 snapshots, running for 30s\n"},
		"large": {50_000, 100_000, "volume snapshots: wait: 50% of 1,000 snapshots, running for 30s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				text := show(t, options(ui.Plain, nil), func(p *ui.Progress) {
					p.Emit(event(phase.StepStarted, "volume snapshots", "wait"))
					p.Emit(progress("volume snapshots", "wait", c.done, c.total, "% of snapshots"))
					wait(31 * time.Second)
				})
				assert.Contains(t, text, c.want)
			})
		})
	}
}
