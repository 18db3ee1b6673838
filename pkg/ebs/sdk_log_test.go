package ebs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// TestSDKWarnings_GoToTheLog answers with a body that breaks off behind the document, of which the SDK warns:
// on stderr, between the lines of --progress json, if it gets no log.
func TestSDKWarnings_GoToTheLog(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		const answer = "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"
		_, _ = fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(answer)+100, answer)
		_ = buffer.Flush()
	}))
	t.Cleanup(server.Close)
	core, logged := observer.New(zap.WarnLevel)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: server.URL, Log: zap.New(core)})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.DescribeVolumes(t.Context(), []cluster.VolumeID{"vol-0123456789abcdef0"})
	require.NoError(t, err)
	require.Len(t, logged.All(), 1)
	require.Contains(t, logged.All()[0].Message, "failed to discard remaining HTTP response body")
}
