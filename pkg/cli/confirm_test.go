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
