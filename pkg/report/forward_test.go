package report_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/report"
)

func TestForward_Text(t *testing.T) {
	t.Parallel()
	f := report.Forward{Pods: 4, Connections: 4, MaxOpenSeconds: 0.21, RoundTripSeconds: 0.0123, MaxRoundTripSeconds: 0.05}
	assert.Equal(t, "through port forwards: 4 pods by 4 connections, the slowest opened in 210ms; a round trip 12.3ms, the longest 50ms", f.Text())
	f = report.Forward{Pods: 1, Connections: 2, InHold: 1}
	assert.Equal(t, "through port forwards: 1 pods by 2 connections, the slowest opened in 0s; 1 opened during the hold", f.Text())
}
