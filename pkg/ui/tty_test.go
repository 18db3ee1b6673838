package ui_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

// screen is what a terminal shows after the text: it knows carriage return, line feed and "clear to the end
// of the line", and drops colours.
func screen(t *testing.T, text string) []string {
	t.Helper()
	lines, column := [][]rune{nil}, 0
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		row := &lines[len(lines)-1]
		switch r := runes[i]; r {
		case '\r':
			column = 0
		case '\n':
			lines, column = append(lines, nil), 0
		case '\x1b':
			end := i + 2
			for runes[end] != 'm' && runes[end] != 'K' {
				end++
			}
			if runes[end] == 'K' {
				*row = (*row)[:min(column, len(*row))]
			}
			i = end
		default:
			if column < len(*row) {
				(*row)[column] = r
			} else {
				*row = append(*row, r)
			}
			column++
		}
	}
	var out []string
	for _, l := range lines {
		out = append(out, string(l))
	}
	return out
}

func TestTTY_PhasesEnd_LinesStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := show(t, options(ui.TTY, nil), func(p *ui.Progress) {
			p.Emit(event(phase.PhaseStarted, "create task", ""))
			wait(850 * time.Millisecond)
			p.Emit(finished("create task", 850*time.Millisecond, phase.Done))
			p.Emit(event(phase.PhaseStarted, "volume snapshots", ""))
			p.Emit(phase.Event{Type: phase.Note, Phase: "volume snapshots", Message: "30 snapshots were accepted"})
			wait(3 * time.Second)
			p.Emit(phase.Event{Type: phase.Warning, Phase: "volume snapshots", Message: "store 4 is slow"})
			_, err := p.Writer().Write([]byte("a log line\n"))
			require.NoError(t, err)
			wait(time.Second)
			p.Emit(phase.Event{Type: phase.StepFailed, Phase: "volume snapshots", Step: "cut", Message: "refused"})
			p.Emit(finished("volume snapshots", 4*time.Second, phase.Failed))
			p.Emit(event(phase.UndoStarted, "create task", "lock"))
			wait(time.Second)
			p.Emit(phase.Event{Type: phase.UndoFinished, Phase: "create task", Step: "lock", Elapsed: time.Second})
			p.Emit(phase.Event{Type: phase.UndoFailed, Phase: "hold", Step: "hold", Elapsed: time.Second, Message: "gone"})
		})
		assert.Equal(t, []string{
			"✔ create task              850ms",
			"  30 snapshots were accepted",
			"! store 4 is slow",
			"a log line",
			"✘ cut: refused",
			"✘ volume snapshots            4s",
			"✔ undo lock                   1s",
			"✘ undo hold                   1s  gone",
			"",
		}, screen(t, text))
		assert.Contains(t, text, "\x1b[33m")
	})
}

func TestTTY_Running_LiveLineShowsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &buffer{}
		p := ui.New(options(ui.TTY, out, "NO_COLOR", "1"))
		p.Emit(event(phase.PhaseStarted, "volume snapshots", ""))
		p.Emit(event(phase.StepStarted, "volume snapshots", "wait"))
		for i := range 61 {
			p.Emit(progress("volume snapshots", "wait", int64(i)*25e9, 3e12, "bytes"))
			wait(time.Second)
		}
		lines := screen(t, out.String())
		require.Len(t, lines, 1)
		assert.Regexp(t, "^. volume snapshots          1m1s  wait  ████████░░░░░░░░  1.4 TiB/2.7 TiB  50%  23 GiB/s  eta 1m[0-2]s$", lines[0])
		assert.NotContains(t, strings.ReplaceAll(out.String(), "\x1b[K", ""), "\x1b", "no colour")
		before := strings.Count(out.String(), "\r")
		wait(time.Second)
		repaints := strings.Count(out.String(), "\r") - before
		assert.InDelta(t, 10, repaints, 1)
		require.NoError(t, p.Close())
		assert.Equal(t, []string{""}, screen(t, out.String()), "the live line is taken down")
	})
}

func TestTTY_NarrowTerminal_LineFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for width := 4; width < 120; width++ {
			out := &buffer{}
			o := options(ui.TTY, out)
			o.Width = func() int { return width }
			p := ui.New(o)
			p.Emit(event(phase.PhaseStarted, "volume snapshots", ""))
			p.Emit(event(phase.StepStarted, "volume snapshots", "wait for snapshots"))
			p.Emit(progress("volume snapshots", "wait for snapshots", 0, 1234567, "regions"))
			wait(5 * time.Second)
			p.Emit(progress("volume snapshots", "wait for snapshots", 345678, 1234567, "regions"))
			wait(5 * time.Second)
			line := screen(t, out.String())[0]
			assert.Less(t, utf8.RuneCountInString(line), width, line)
			if width > 60 {
				assert.Contains(t, line, "345,678/1,234,567 regions")
			}
			require.NoError(t, p.Close())
		}
	})
}

func TestTTY_UnknownWidthAndNoUnicode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &buffer{}
		o := options(ui.TTY, out, "LC_ALL", "C")
		o.Width = func() int { return 0 }
		p := ui.New(o)
		p.Emit(event(phase.PhaseStarted, "start TiKV", ""))
		p.Emit(progress("start TiKV", "start", 3, 20, "stores"))
		wait(time.Second)
		p.Emit(progress("start TiKV", "start", 4, 0, ""))
		wait(time.Second)
		p.Emit(progress("start TiKV", "start", 4, 0, "bytes"))
		wait(time.Second)
		p.Emit(finished("start TiKV", 2*time.Second, phase.Done))
		require.NoError(t, p.Close())
		assert.Contains(t, out.String(), "##..............  3/20 stores  15%")
		assert.Equal(t, []string{"+ start TiKV                  2s", ""}, screen(t, out.String()))
		for _, r := range out.String() {
			require.Less(t, r, rune(128))
		}
	})
}
