package ebstest_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const zone = cluster.Zone("us-west-2a")

// wire is a server and a client that knows no more than HTTP.
type wire struct {
	*ebstest.Server
	http   *http.Client
	faults *fault.Plan
}

func start(t *testing.T, speed float64, change ...func(*ebstest.Rules)) *wire {
	t.Helper()
	rules := ebstest.QuickRules()
	rules.Invisible, rules.Creating = ebstest.Span{}, ebstest.Span{}
	for _, c := range change {
		c(rules)
	}
	w := &wire{faults: &fault.Plan{}, http: &http.Client{Transport: &http.Transport{}}}
	w.Server = ebstest.New(ebstest.Config{Clock: timescale.New(speed), Faults: w.faults, Rules: rules})
	require.NoError(t, w.Start())
	t.Cleanup(w.http.CloseIdleConnections)
	t.Cleanup(w.Close)
	return w
}

// answer is what all answers and refusals have in common, loosely read.
type answer struct {
	Code    string   `xml:"Errors>Error>Code"`
	Message string   `xml:"Errors>Error>Message"`
	Next    string   `xml:"nextToken"`
	IDs     []string `xml:"snapshotSet>item>snapshotId"`
	States  []string `xml:"snapshotSet>item>status"`
	Volumes []string `xml:"volumeSet>item>volumeId"`
	Volume  string   `xml:"volumeId"`
	IOPS    int64    `xml:"iops"`
	MiB     int64    `xml:"throughput"`
	Status  string   `xml:"status"`
	status  int
}

// call sends "Action", "Key", "value", …
func (w *wire) call(t *testing.T, action string, pairs ...string) answer {
	t.Helper()
	a, err := w.try(t.Context(), action, pairs...)
	require.NoError(t, err)
	return a
}

func (w *wire) try(ctx context.Context, action string, pairs ...string) (a answer, err error) {
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for n := 0; n < len(pairs); n += 2 {
		form.Set(pairs[n], pairs[n+1])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL(), strings.NewReader(form.Encode()))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := w.http.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a.status = resp.StatusCode
	return a, xml.Unmarshal(body, &a)
}

// volume is an attached 10 GiB volume and its instance.
func (w *wire) volume(t *testing.T) (cluster.VolumeID, cluster.InstanceID) {
	t.Helper()
	i := w.AddInstance(zone)
	v, err := w.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, nil)
	require.NoError(t, err)
	require.NoError(t, w.Attach(v, i))
	return v, i
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	require.Eventually(t, check, 20*time.Second, 2*time.Millisecond, what)
}

func TestServer_UnknownAction_Refused(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	a := w.call(t, "MakeCoffee")
	require.Equal(t, "InvalidAction", a.Code)
	require.Equal(t, http.StatusBadRequest, a.status)
}

func TestServer_Faults_EachPosition(t *testing.T) {
	t.Parallel()
	w := start(t, 1, func(r *ebstest.Rules) { r.SnapshotSpacing = 0 })
	v, _ := w.volume(t)
	strike := func(r fault.Rule) {
		w.faults.Clear()
		r.Point = "ec2.CreateSnapshot"
		require.NoError(t, w.faults.Add(r))
	}
	strike(fault.Rule{Position: fault.Before})
	require.Equal(t, "InternalError", w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	strike(fault.Rule{Position: fault.Before, Code: "RequestLimitExceeded"})
	a := w.call(t, "CreateSnapshot", "VolumeId", string(v))
	require.Equal(t, "RequestLimitExceeded", a.Code)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Empty(t, w.Snapshots())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	strike(fault.Rule{Position: fault.Stall, Do: cancel}) // and not before the server has the call
	_, err := w.try(ctx, "CreateSnapshot", "VolumeId", string(v))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, w.Snapshots())

	strike(fault.Rule{Position: fault.After})
	_, err = w.try(t.Context(), "CreateSnapshot", "VolumeId", string(v))
	require.Error(t, err)
	require.Len(t, w.Snapshots(), 1)

	strike(fault.Rule{Position: fault.Slow, Delay: 20 * time.Millisecond})
	require.Empty(t, w.call(t, "CreateSnapshot", "VolumeId", string(v)).Code)
	require.Len(t, w.Snapshots(), 2)
	require.Len(t, w.MutatingCalls(), 5)
}

func TestServer_CloseDuringStall_Returns(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	require.NoError(t, w.faults.Add(fault.Rule{Point: "ec2.*", Position: fault.Stall, Do: func() { go w.Close() }}))
	_, err := w.try(t.Context(), "DescribeVolumes")
	require.Error(t, err)
	w.Close()
}

func TestServer_Bucket_EmptiesAndRefills(t *testing.T) {
	t.Parallel()
	w := start(t, 0.1, func(r *ebstest.Rules) { r.Listed = ebstest.Bucket{Size: 3, Refill: 20} }) // 2 in a real second
	refused := 0
	for range 20 {
		if w.call(t, "DescribeVolumes").Code == "RequestLimitExceeded" {
			refused++
		}
	}
	require.Positive(t, refused)
	require.Empty(t, w.call(t, "DescribeVolumes", "MaxResults", "5").Code, "pages have a bucket of their own")
	eventually(t, "refilled", func() bool { return w.call(t, "DescribeVolumes").Code == "" })
	w.DrainBucket("DescribeVolumes")
	require.Equal(t, "RequestLimitExceeded", w.call(t, "DescribeVolumes").Code)
}

func TestServer_DryRun_AnswersAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	v, i := w.volume(t)
	for _, call := range [][]string{
		{"CreateSnapshots", "InstanceSpecification.InstanceId", string(i)},
		{"CreateSnapshot", "VolumeId", string(v)},
		{"CreateVolume", "AvailabilityZone", string(zone), "Size", "1"},
		{"DeleteVolume", "VolumeId", string(v)},
		{"DetachVolume", "VolumeId", string(v)},
		{"TerminateInstances", "InstanceId.1", string(i)},
	} {
		a := w.call(t, call[0], append(call[1:], "DryRun", "true")...)
		require.Equal(t, "DryRunOperation", a.Code, call[0])
		require.Equal(t, http.StatusPreconditionFailed, a.status)
		w.Deny(call[0])
		require.Equal(t, "UnauthorizedOperation", w.call(t, call[0], append(call[1:], "DryRun", "true")...).Code)
		w.Allow(call[0])
	}
	require.Empty(t, w.MutatingCalls())
	require.Empty(t, w.Snapshots())
	require.Len(t, w.Volumes(), 2)
}

func TestServer_Latency_CutInsideTheCall(t *testing.T) {
	t.Parallel()
	w := start(t, 100, func(r *ebstest.Rules) {
		r.Latency = map[string]ebstest.Span{"CreateSnapshots": {Least: 2 * time.Second, Most: 4 * time.Second}}
	})
	_, i := w.volume(t)
	before := time.Now()
	require.Empty(t, w.call(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i)).Code)
	require.GreaterOrEqual(t, time.Since(before), 20*time.Millisecond)
	require.Len(t, w.Cuts(), 1)
	require.Len(t, w.Cuts()[0].Snapshots, 2, "the boot volume is included unless it is excluded")
}

func TestServer_Pages_EveryVolumeOnce(t *testing.T) {
	t.Parallel()
	w := start(t, 1)
	want := map[string]bool{}
	for n := range 23 {
		v, err := w.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, ebs.Tags{"even": fmt.Sprint(n%2 == 0)})
		require.NoError(t, err)
		if n%2 == 0 {
			want[string(v)] = true
		}
	}
	got, token, calls := map[string]bool{}, "", 0
	for calls == 0 || token != "" {
		pairs := []string{"MaxResults", "5", "Filter.1.Name", "tag:even", "Filter.1.Value.1", "tru?"}
		if token != "" {
			pairs = append(pairs, "NextToken", token)
		}
		a := w.call(t, "DescribeVolumes", pairs...)
		require.Empty(t, a.Code)
		for _, v := range a.Volumes {
			require.False(t, got[v], "twice")
			got[v] = true
		}
		token = a.Next
		calls++
	}
	require.Equal(t, want, got)
	require.Equal(t, 5, calls)
	require.Equal(t, "InvalidParameterValue", w.call(t, "DescribeVolumes", "MaxResults", "4").Code)
	require.Equal(t, "InvalidParameterCombination", w.call(t, "DescribeVolumes", "MaxResults", "5", "VolumeId.1", w.first()).Code)
	require.Equal(t, "InvalidParameterValue", w.call(t, "DescribeVolumes", "Filter.1.Name", "colour", "Filter.1.Value.1", "red").Code)
}

func (w *wire) first() string { return string(w.Volumes()[0].ID) }

func TestRealRules_Restore_StatesInOrder(t *testing.T) {
	t.Parallel()
	w := &wire{http: &http.Client{Transport: &http.Transport{}}}
	w.Server = ebstest.New(ebstest.Config{Clock: timescale.New(2000), Rules: ebstest.RealRules()})
	require.NoError(t, w.Start())
	t.Cleanup(w.http.CloseIdleConnections)
	t.Cleanup(w.Close)
	_, i := w.volume(t)
	require.Empty(t, w.call(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i)).Code)
	id := string(w.Snapshots()[0].ID)
	var a answer
	eventually(t, "volume made", func() bool {
		a = w.call(t, "CreateVolume", "AvailabilityZone", string(zone), "SnapshotId", id)
		return a.Code == ""
	})
	eventually(t, "volume available", func() bool {
		v, ok := w.Volume(cluster.VolumeID(a.Volume))
		return ok && v.State == ebs.VolumeAvailable
	})
	eventually(t, "volume deleted", func() bool { return w.call(t, "DeleteVolume", "VolumeId", a.Volume).Code == "" })
	eventually(t, "volume gone", func() bool { return len(w.Volumes()) == 2 })
}
