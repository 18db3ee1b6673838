package ebs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

const oneInstance = `<DescribeInstancesResponse><reservationSet><item><instancesSet><item>
<instanceId>i-1</instanceId><rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping>
<item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-boot</volumeId><status>attached</status></ebs></item>
<item><deviceName>/dev/sdf</deviceName><ebs><volumeId>vol-1</volumeId><status>attached</status></ebs></item>
<item><deviceName>/dev/sdg</deviceName><ebs><volumeId>vol-2</volumeId><status>attaching</status></ebs></item>
</blockDeviceMapping></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`

// odd is a client of a server that answers every CreateSnapshots with the same text.
func odd(t *testing.T, status int, text string) *ebs.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") == "DescribeInstances" {
			_, _ = io.WriteString(w, oneInstance)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	client, err := ebs.Open(t.Context(), ebs.Config{Region: "us-west-2", Endpoint: server.URL})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestCut_OddAnswer_KindAndSnapshots(t *testing.T) {
	t.Parallel()
	const head, tail = `<CreateSnapshotsResponse><snapshotSet>`, `</snapshotSet></CreateSnapshotsResponse>`
	const one = `<item><snapshotId>snap-1</snapshotId><volumeId>vol-1</volumeId></item>`
	const two = `<item><snapshotId>snap-2</snapshotId><volumeId>vol-2</volumeId></item>`
	for name, test := range map[string]struct {
		status int
		text   string
		kind   failure.Kind
		made   int
	}{
		"empty":              {200, "", failure.Unknown, 0},
		"no snapshots":       {200, head + tail, failure.Unknown, 0},
		"cut off":            {200, head + one, failure.Unknown, 0},
		"another volume too": {200, head + one + two + tail, failure.Conflict, 2},
		"another volume":     {200, head + two + tail, failure.Conflict, 1},
		"no id":              {200, head + `<item><volumeId>vol-1</volumeId></item>` + tail, failure.Unknown, 1},
		"balancer's page":    {503, "<html>busy</html>", failure.Unknown, 0},
		"not even xml":       {400, "no", failure.Unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := odd(t, test.status, test.text).
				Cut(t.Context(), ebs.CutRequest{Instance: "i-1", Volumes: []cluster.VolumeID{"vol-1"}})
			require.Error(t, err)
			require.Equal(t, test.kind, failure.KindOf(err), "%v", err)
			require.Len(t, made, test.made)
		})
	}
	made, err := odd(t, 200, head+one+tail).
		Cut(t.Context(), ebs.CutRequest{Instance: "i-1", Volumes: []cluster.VolumeID{"vol-1"}})
	require.NoError(t, err)
	require.Equal(t, ebs.SnapshotPending, made[0].State)
}

func TestCut_WantedVolumeAttaching_Conflict(t *testing.T) {
	t.Parallel()
	_, err := odd(t, 500, "").Cut(t.Context(), ebs.CutRequest{Instance: "i-1", Volumes: []cluster.VolumeID{"vol-1", "vol-2"}})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "vol-2 is attaching")
}
