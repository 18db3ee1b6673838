package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestConfirm_OnlyAYesIsAYes(t *testing.T) {
	t.Parallel()
	for answer, yes := range map[string]bool{"y\n": true, "Yes\n": true, "yes": true, "\n": false, "": false, "n\n": false, "yep\n": false} {
		var asked bytes.Buffer
		a := &app{streams: Streams{In: strings.NewReader(answer), Err: &asked}}
		err := a.confirm(t.Context(), "release?")
		require.Equal(t, "release? [y/N] ", asked.String())
		if yes {
			require.NoError(t, err, "%q", answer)
			continue
		}
		require.Equal(t, failure.Usage, failure.KindOf(err), "%q", answer)
	}
}

func TestConfirm_Interrupted_ChangesNothing(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("interrupted")
	cancel(reason)
	a := &app{streams: Streams{In: r, Err: &bytes.Buffer{}}}
	require.ErrorIs(t, a.confirm(ctx, "release?"), reason)
	require.NoError(t, w.Close()) // ends the read
}

func TestAsks_NeedsATerminalAndAReader(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _, _ = r.Close(), w.Close() }()
	require.False(t, (&app{}).asks(), "no input")
	require.False(t, (&app{streams: Streams{In: r}}).asks(), "a pipe")
	tty := Streams{In: r, asTerminal: true}
	require.True(t, (&app{streams: tty}).asks())
	require.False(t, (&app{streams: tty, global: globalFlags{output: "json"}}).asks(), "a program reads")
}

// delete and prune show what would go and ask, as release does; a script has to pass --yes.
func TestConfirmRemoval_ShowsThePlanAndAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  removal
		answer string
		shown  bool
		ok     bool
	}{
		"yes":     {removal{rate: 1}, "y\n", true, true},
		"no":      {removal{rate: 1}, "n\n", true, false},
		"--yes":   {removal{rate: 1, yes: true}, "", false, true},
		"dry run": {removal{rate: 1, dryRun: true}, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := &app{streams: Streams{In: strings.NewReader(c.answer), Err: &out}}
			require.NoError(t, c.flags.validate(true))
			require.Equal(t, c.shown, c.flags.validate(false) != nil, "a script is not asked")
			err := a.confirmRemoval(t.Context(), &c.flags, "delete them?", func() (document, error) { return twoBackups(), nil })
			require.Equal(t, c.ok, err == nil)
			require.Equal(t, c.shown, strings.Contains(out.String(), "tidb/prod") && strings.Contains(out.String(), "delete them? [y/N]"))
		})
	}
}
