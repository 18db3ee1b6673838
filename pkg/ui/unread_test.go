package ui_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/ui"
)

func TestClose_StreamIsNotRead_TimesOutAndStaysSilent(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	p := ui.New(ui.Options{Mode: ui.Plain, Out: writer, Patience: 50 * time.Millisecond})
	p.Emit(phase.Event{Type: phase.PhaseStarted, Phase: "a"})
	require.ErrorIs(t, p.Close(), ui.ErrUnread)
	_, err := p.Writer().Write([]byte("more\n"))
	require.ErrorIs(t, err, ui.ErrUnread)
	require.ErrorIs(t, p.Close(), ui.ErrUnread)
	require.NoError(t, reader.Close()) // ends the write under way
}

func TestClose_SlowReader_IsWaitedFor(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	p := ui.New(ui.Options{Mode: ui.Plain, Out: writer, Patience: time.Second})
	for range 20 {
		p.Emit(phase.Event{Type: phase.PhaseStarted, Phase: "a"})
	}
	lines := make(chan int, 1)
	go func() {
		n, tick := 0, time.NewTicker(10*time.Millisecond)
		defer tick.Stop()
		for buffer := make([]byte, 256); ; n++ {
			if _, err := reader.Read(buffer); err != nil {
				lines <- n
				return
			}
			<-tick.C
		}
	}()
	require.NoError(t, p.Close())
	require.NoError(t, writer.Close())
	require.Equal(t, 20, <-lines)
}
