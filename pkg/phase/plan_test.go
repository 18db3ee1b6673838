package phase_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// diary notes, at the same time for several steps, what each of them did.
type diary struct {
	mu  sync.Mutex
	did []string
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.did = append(d.did, what)
}

// step takes a time, in a phase of its own, after the named ones.
func (d *diary) step(name string, takes time.Duration, after ...string) phase.Step {
	return phase.Step{
		Phase: "phase of " + name, Name: name, Deadline: time.Hour, Order: phase.Order{After: after},
		Do: func(ctx context.Context, _ *phase.Scope) error {
			d.note("begin " + name)
			if err := wait.For(ctx, takes); err != nil {
				d.note("cancelled " + name)
				return context.Cause(ctx)
			}
			d.note("end " + name)
			return nil
		},
		Undo: phase.Undo{Do: func(context.Context, *phase.Scope) error { d.note("undo " + name); return nil }},
	}
}

// cluster is a run of two branches that meet: the cluster comes up while its volumes are made.
func (d *diary) cluster() []phase.Step {
	return []phase.Step{
		d.step("lock", time.Second),
		d.step("create", 10*time.Second),
		d.step("await", 50*time.Second, "create"),
		d.step("volumes", 5*time.Second, "lock"),
		d.step("bind", time.Second, "volumes", "create"),
		d.step("start", 10*time.Second),
	}
}

func TestRun_StepsThatNeedNotWait_RunAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, j := &diary{}, &memory{}
		e := phase.New(phase.Config{Journal: j})
		start := time.Now()
		require.NoError(t, e.Run(t.Context(), d.cluster()))
		assert.Equal(t, 71*time.Second, time.Since(start), "1 for the lock, 60 for the cluster, 10 for the start")
		assert.ElementsMatch(t, []string{"begin create", "begin volumes"}, d.did[2:4])
		assert.Equal(t, []string{
			"end volumes", "end create", "begin await", "begin bind", "end bind", "end await", "begin start", "end start",
		}, settled(d.did[4:]))
		seconds, own := map[string]float64{}, map[string]float64{}
		for _, p := range e.Timings() {
			seconds[p.Phase], own[p.Phase] = p.Seconds, p.Seconds-p.OverlapSeconds
			require.Equal(t, phase.Done, p.Outcome)
		}
		assert.InDelta(t, 5, seconds["phase of volumes"], 1e-9)
		assert.InDelta(t, 50, seconds["phase of await"], 1e-9)
		assert.InDelta(t, 71, e.Timings().Total(), 1e-9, "the phases' own times are the run's")
		assert.InDelta(t, 15, own["phase of create"]+own["phase of volumes"]+5, 1e-9, "one of the two overlaps the other")
	})
}

// settled puts two steps that begin at the same moment in the order of their names.
func settled(did []string) []string {
	i := slices.Index(did, "begin await")
	if j := slices.Index(did, "begin bind"); j == i-1 {
		did[i], did[j] = did[j], did[i]
	}
	return did
}

func TestRun_Serial_KeepsTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, j := &diary{}, &memory{}
		start := time.Now()
		e := phase.New(phase.Config{Journal: j, Serial: true})
		require.NoError(t, e.Run(t.Context(), d.cluster()))
		assert.Equal(t, 77*time.Second, time.Since(start))
		assert.Equal(t, []string{
			"run ", "begin lock", "done lock", "begin create", "done create", "begin await", "done await", "begin volumes", "done volumes",
			"begin bind", "done bind", "begin start", "done start", "end ",
		}, j.lines())
		for _, p := range e.Timings() {
			assert.Zero(t, p.OverlapSeconds, p.Phase)
		}
	})
}

// A step that ends the effects of others is not cancelled because a step beside it failed: what it ends would be undone.
func TestRun_StepThatDecides_EndsByItselfWhenAnotherFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		decides bool
		want    []string
	}{
		"it decides":  {true, []string{"begin make", "end make", "end leaders", "undo leaders"}},
		"it does not": {false, []string{"begin make", "end make", "cancelled leaders", "undo leaders", "undo make"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, j := &diary{}, &memory{}
				leaders := d.step("leaders", time.Minute, "make")
				leaders.Order.Ends, leaders.Order.Decides = []string{"make"}, row.decides
				serve := phase.Step{
					Phase: "serve", Name: "serve", Order: phase.Order{After: []string{"make"}}, Deadline: time.Hour,
					Do: func(ctx context.Context, _ *phase.Scope) error {
						return errors.Join(wait.For(ctx, time.Second), errors.New("no image"))
					},
				}
				err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{d.step("make", time.Second), leaders, serve, d.step("last", time.Second)})
				require.EqualError(t, err, "no image")
				assert.Equal(t, row.want, slices.DeleteFunc(d.did, func(s string) bool { return s == "begin leaders" }))
			})
		})
	}
}

func TestRun_StepFails_OthersAreCancelledAndUndoneInReverseOfTheirEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, j := &diary{}, &memory{}
		steps := d.cluster()
		bind := steps[4].Do
		steps[4].Do = func(ctx context.Context, s *phase.Scope) error {
			return errors.Join(bind(ctx, s), errors.New("no claim"))
		}
		e := phase.New(phase.Config{Journal: j})
		start := time.Now()
		err := e.Run(t.Context(), steps)
		require.EqualError(t, err, "no claim", "the cancelled step's error is left out")
		assert.Equal(t, 12*time.Second, time.Since(start), "the cluster is not waited for")
		assert.NotContains(t, d.did, "begin start")
		assert.Equal(t, []string{"cancelled await", "undo await", "undo bind", "undo create", "undo volumes", "undo lock"}, d.did[len(d.did)-6:])
		assert.Contains(t, j.lines(), "failed await")
		for _, p := range e.Timings()[3:] {
			assert.Equal(t, phase.Failed, p.Outcome, p.Phase)
		}
	})
}

// A second failure that is not a cancellation is not lost.
func TestRun_TwoStepsFail_BothErrorsAreReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		steps := d.cluster()
		steps[2].Do = func(ctx context.Context, _ *phase.Scope) error { <-ctx.Done(); return errors.New("PD broke too") }
		steps[4].Do = func(ctx context.Context, _ *phase.Scope) error {
			return errors.Join(wait.For(ctx, time.Second), errors.New("no claim"))
		}
		err := phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), steps)
		require.EqualError(t, err, "no claim\nPD broke too")
	})
}

// A step that ends its goroutine, as a failed assertion does, ends the run and does not hang it.
func TestRun_StepEndsItsGoroutine_IsAnError(t *testing.T) {
	t.Parallel()
	goexit := phase.Step{Phase: "p", Name: "s", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error {
		runtime.Goexit()
		return nil
	}}
	err := phase.New(phase.Config{Journal: &memory{}}).Run(t.Context(), []phase.Step{goexit})
	require.ErrorContains(t, err, "it exited its goroutine")
}

// A process that died while two steps were under way is continued: both are done again, what was done is not.
func TestRun_ResumedWithTwoStepsUnderWay_DoesBothAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, j := &diary{}, &memory{}
		stopped := errors.New("killed")
		j.refuse = func(r phase.Record) error {
			if r.Type == phase.RecordDone && r.Step == "await" || r.Type == phase.RecordUndo || r.Type == phase.RecordEnd {
				return stopped
			}
			return nil
		}
		slow := first.cluster()
		slow[4].Deadline = 24 * time.Hour
		slow[4].Do = first.step("bind", time.Hour).Do
		require.Error(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), slow))
		j.refuse = nil
		second := &diary{}
		e := phase.New(phase.Config{Journal: j, Resume: &phase.Resume{
			Admit: "lock", Epoch: func() int64 { return 2 }, Same: func(*phase.History) error { return nil },
			Adopt: func(context.Context, *phase.Scope, *phase.History) error { return nil },
		}})
		steps := second.cluster()
		steps[0].Resume.Repeat = true
		require.NoError(t, e.Run(t.Context(), steps))
		require.ElementsMatch(t, []string{
			"begin lock", "end lock", "begin await", "end await", "begin bind", "end bind", "begin start", "end start",
		}, second.did)
		require.Len(t, e.Before(), 1)
	})
}

func TestRun_OrderThatCannotBe_IsRefused(t *testing.T) {
	t.Parallel()
	d := &diary{}
	resume := &phase.Resume{Admit: "lock"}
	ends := d.step("release", 0, "lock")
	ends.Order.Ends = []string{"hold"}
	cases := map[string]struct {
		cfg   phase.Config
		steps []phase.Step
		text  string
	}{
		"after a later step": {steps: []phase.Step{d.step("a", 0, "b"), d.step("b", 0)}, text: `comes after "b", which no earlier step is called`},
		"beside the lock":    {cfg: phase.Config{Resume: resume}, steps: []phase.Step{d.step("a", 0), d.step("lock", 0), d.step("b", 0, "a")}, text: "which keeps other processes out"},
		"ends what it is beside": {
			steps: []phase.Step{d.step("lock", 0), d.step("hold", 0), ends}, text: `it ends "hold" and does not come after it`,
		},
		"in attempts": {
			cfg: phase.Config{Group: &phase.RetryGroup{From: "a", To: "b"}}, steps: []phase.Step{d.step("a", 0), d.step("b", 0, "a")},
			text: "run one after the other",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.Journal = &memory{}
			require.ErrorContains(t, phase.New(c.cfg).Run(t.Context(), c.steps), c.text)
		})
	}
	require.Empty(t, d.did)
}
