package ui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func environment(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func options(mode ui.Mode, out io.Writer, env ...string) ui.Options {
	return ui.Options{
		Mode: mode, Out: out, Env: environment(env...),
		IsTerminal: func() bool { return true }, Width: func() int { return 100 },
	}
}

// show runs the script against a Progress in fake time and returns everything that was written.
func show(t *testing.T, o ui.Options, script func(p *ui.Progress)) string {
	t.Helper()
	out := &buffer{}
	o.Out = out
	p := ui.New(o)
	script(p)
	require.NoError(t, p.Close())
	return out.String()
}

// wait lets fake time pass and the renderer catch up.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func event(kind phase.EventType, name, step string) phase.Event {
	return phase.Event{Type: kind, Phase: name, Step: step}
}

func progress(name, step string, done, total int64, unit string) phase.Event {
	return phase.Event{Type: phase.Progress, Phase: name, Step: step, Done: done, Total: total, Unit: unit}
}

func finished(name string, d time.Duration, outcome phase.Outcome) phase.Event {
	return phase.Event{Type: phase.PhaseFinished, Phase: name, Elapsed: d, Message: string(outcome)}
}

func TestMode_ByEnvironment(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		mode     ui.Mode
		terminal bool
		env      []string
		want     ui.Mode
	}{
		{"terminal", ui.Auto, true, nil, ui.TTY},
		{"zero mode", "", true, nil, ui.TTY},
		{"no terminal", ui.Auto, false, nil, ui.Plain},
		{"dumb terminal", ui.Auto, true, []string{"TERM", "dumb"}, ui.Plain},
		{"continuous integration", ui.Auto, true, []string{"CI", "true"}, ui.Plain},
		{"ci switched off", ui.Auto, true, []string{"CI", "false"}, ui.TTY},
		{"asked for in ci", ui.TTY, false, []string{"CI", "true"}, ui.TTY},
		{"asked for on a dumb terminal", ui.TTY, true, []string{"TERM", "dumb"}, ui.Plain},
		{"plain", ui.Plain, true, nil, ui.Plain},
		{"json", ui.JSON, true, nil, ui.JSON},
		{"none", ui.None, true, nil, ui.None},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options(c.mode, &buffer{}, c.env...)
			o.IsTerminal = func() bool { return c.terminal }
			p := ui.New(o)
			assert.Equal(t, c.want, p.Mode())
			require.NoError(t, p.Close())
		})
	}
}

func TestNew_NoTerminalFunction_BufferIsPlain(t *testing.T) {
	t.Parallel()
	p := ui.New(ui.Options{Out: &buffer{}, Env: environment()})
	assert.Equal(t, ui.Plain, p.Mode())
	require.NoError(t, p.Close())
}

func TestProgress_ConcurrentEmit_EveryNoteIsShownOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []ui.Mode{ui.TTY, ui.Plain, ui.JSON} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			out := &buffer{}
			p := ui.New(options(mode, out))
			p.Emit(event(phase.PhaseStarted, "seal", ""))
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 100 {
						p.Emit(progress("seal", fmt.Sprint(g), int64(i), 100, "objects"))
						p.Emit(phase.Event{Type: phase.Note, Phase: "seal", Message: fmt.Sprintf("note %d of %d.", i, g)})
						_, _ = fmt.Fprintf(p.Writer(), "log %d of %d.\n", i, g)
					}
				})
			}
			wg.Wait()
			require.NoError(t, p.Close())
			require.NoError(t, p.Close(), "again")
			text := out.String()
			for g := range 8 {
				for i := range 100 {
					assert.Equal(t, 1, strings.Count(text, fmt.Sprintf("note %d of %d.", i, g)))
					assert.Equal(t, 1, strings.Count(text, fmt.Sprintf("log %d of %d.", i, g)))
				}
			}
		})
	}
}

// stuck is a terminal that was stopped: writes wait until it is released.
type stuck struct {
	buffer
	release chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.buffer.Write(b)
}

func TestProgress_StreamIsStuck_EmitDoesNotBlock(t *testing.T) {
	t.Parallel()
	out := &stuck{release: make(chan struct{})}
	p := ui.New(options(ui.Plain, out))
	for i := range 50_000 {
		p.Emit(progress("seal", "upload", int64(i), 50_000, "objects"))
		p.Emit(phase.Event{Type: phase.Note, Phase: "seal", Message: "still here"})
	}
	_, err := io.WriteString(p.Writer(), "a log line\n")
	require.NoError(t, err)
	close(out.release)
	require.NoError(t, p.Close())
	assert.Contains(t, out.String(), "messages were not shown: the output was too slow")
}

var errGone = errors.New("broken pipe")

// gone counts the writes after its reader went away.
type gone struct {
	mu     sync.Mutex
	writes int
}

func (g *gone) Write([]byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	return 0, errGone
}

func TestProgress_StreamFails_CloseFailsAndNothingMoreIsWritten(t *testing.T) {
	t.Parallel()
	for _, mode := range []ui.Mode{ui.TTY, ui.Plain, ui.JSON} {
		out := &gone{}
		p := ui.New(options(mode, out))
		for range 10 {
			p.Emit(event(phase.PhaseStarted, "seal", ""))
		}
		require.ErrorIs(t, p.Close(), errGone)
		p.Emit(event(phase.PhaseStarted, "seal", ""))
		_, err := io.WriteString(p.Writer(), "late\n")
		require.ErrorIs(t, err, errGone)
		assert.Equal(t, 1, out.writes)
	}
}

func TestWriter_PartialLines_AreJoinedAndFlushedByClose(t *testing.T) {
	t.Parallel()
	out := &buffer{}
	p := ui.New(options(ui.None, out))
	for _, s := range []string{"one ", "line\ntwo", " lines\nand a rest"} {
		n, err := io.WriteString(p.Writer(), s)
		require.NoError(t, err)
		assert.Len(t, s, n)
	}
	p.Emit(event(phase.PhaseStarted, "seal", ""))
	require.NoError(t, p.Close())
	_, err := io.WriteString(p.Writer(), "after close\n")
	require.NoError(t, err)
	assert.Equal(t, "one line\ntwo lines\nand a rest\nafter close\n", out.String())
}

func TestJSON_EveryLineIsAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.JSON, nil), func(p *ui.Progress) {
			p.Emit(event(phase.PhaseStarted, "volume snapshots", ""))
			p.Emit(event(phase.StepStarted, "volume snapshots", "wait"))
			for i := range 101 {
				p.Emit(progress("volume snapshots", "wait", int64(i), 100, "volumes"))
				wait(100 * time.Millisecond)
			}
			p.Emit(phase.Event{Type: phase.Warning, Phase: "volume snapshots", Message: "a < b\nc"})
			p.Emit(phase.Event{Type: phase.StepFinished, Phase: "volume snapshots", Step: "wait", Elapsed: 10100 * time.Millisecond})
			p.Emit(finished("volume snapshots", 10200*time.Millisecond, phase.Done))
		})
		var lines []map[string]any
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			var m map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &m), line)
			assert.NotEmpty(t, m["time"])
			lines = append(lines, m)
		}
		var shown []map[string]any
		for _, m := range lines {
			if m["type"] == "progress" {
				shown = append(shown, m)
			}
		}
		assert.Less(t, len(shown), 25, "progress is paced")
		assert.InDelta(t, 0, shown[0]["done"], 0)
		assert.NotContains(t, shown[0], "etaSeconds")
		last := shown[len(shown)-1]
		assert.InDelta(t, 100, last["done"], 0, "the last one is always written")
		middle := shown[len(shown)/2]
		assert.InDelta(t, 5, middle["etaSeconds"], 1)
		assert.InDelta(t, 10, middle["ratePerSecond"], 2)
		assert.Equal(t, "volumes", middle["unit"])
		end := lines[len(lines)-1]
		assert.Equal(t, "phase-finished", end["type"])
		assert.InDelta(t, 10.2, end["elapsedSeconds"], 1e-9)
		assert.Equal(t, "a < b\nc", lines[len(lines)-3]["message"])
	})
}
