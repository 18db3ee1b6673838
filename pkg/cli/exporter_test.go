package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/exporter"
)

// endsServing is a standard error that ends a server once it reports that it serves.
type endsServing struct {
	bytes.Buffer

	end context.CancelFunc
}

func (e *endsServing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("serving ")) {
		e.end()
	}
	return e.Buffer.Write(p)
}

// Who opens the page to others reads so.
func TestExporter_BoundToOtherThanLoopback_Warns(t *testing.T) {
	t.Parallel()
	for listen, warned := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true, ":0": true} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stderr := &endsServing{end: cancel}
			code := Run(ctx, []string{"exporter", "--storage", "file://" + t.TempDir(), "--listen", listen}, Streams{Out: io.Discard, Err: stderr}, Version{})
			require.Zero(t, code, stderr.String())
			require.Contains(t, stderr.String(), "serving file://")
			require.Equal(t, warned, bytes.Contains(stderr.Bytes(), []byte("warning: anyone who can reach this address can read")), stderr.String())
		})
	}
}

func TestExporter_NoListen_IsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	host, _, err := net.SplitHostPort(new(app).exporterCommand().Flag("listen").DefValue)
	require.NoError(t, err)
	require.True(t, exporter.Loopback(host), host)
}
