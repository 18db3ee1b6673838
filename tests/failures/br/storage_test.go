package br_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// hostStyle is an S3 of the domain s3.test, where each bucket is a host: the process reaches it as a proxy, which stands
// for the DNS of the domain.
type hostStyle struct {
	*httptest.Server

	mu    sync.Mutex
	hosts map[string]int
}

func newHostStyle(t *testing.T, p *place) *hostStyle {
	t.Helper()
	h := &hostStyle{hosts: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.hosts[r.Host]++
		h.mu.Unlock()
		bucket, isBucket := strings.CutSuffix(r.Host, ".s3.test")
		if !isBucket {
			http.Error(w, "no bucket in the host's name", http.StatusBadRequest)
			return
		}
		r.URL.Path, r.URL.RawPath = "/"+bucket+r.URL.Path, ""
		p.S3.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// A store that wants the bucket in the host's name is written to and read from by that name alone.
func TestStorage_VirtualHostedStyle_BucketIsTheHost(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"by the provider": {"--storage=" + storage, "--s3.provider=alibaba", "--s3.endpoint=http://s3.test"},
		"by the URL":      {"--storage=" + storage + "?force-path-style=false&endpoint=http://s3.test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			h := newHostStyle(t, p)
			b := p.launchWith(t, []string{"HTTP_PROXY=" + h.URL, "http_proxy=" + h.URL}, append([]string{
				"backup", "full", "--type=aws-ebs", "--volume-file=" + p.volumeFile(), "--pd=" + p.pd(), "--s3.region=" + testbed.Region,
			}, flags...)...)
			require.NoError(t, b.cmd.Wait(), &b.out)
			require.Contains(t, b.out.String(), "EBS backup success")
			h.mu.Lock()
			require.Len(t, h.hosts, 1, "%v", h.hosts)
			require.Positive(t, h.hosts[testbed.Bucket+".s3.test"])
			h.mu.Unlock()
			require.NoError(t, p.backupMeta(t).Validate())
		})
	}
}

// https://github.com/pingcap/tidb-operator/pull/5464: what a schedule missed while it was paused is asked for at once when it
// continues. One of the Jobs backs up; each of the others ends at once and leaves nothing that would stop the next ones.
// Catalogue: C15.
func TestJobsOfAScheduleThatWasPaused_OneBacksUpAndNoneIsInTheWay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	late := make(chan *job, 3)
	p.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut, Position: fault.Slow, Do: func() {
		for _, at := range []string{"-1", "-2", "-3"} {
			j := p.backup(t, "--storage="+storage+at)
			<-j.done
			late <- j
		}
	}})
	first := p.backup(t)
	require.Equal(t, brcompat.ExitDone, first.ends(t), first.out())
	require.Empty(t, p.faults.Unreached())
	for range 3 {
		(<-late).requireRefused(t, "another tool holds the cluster")
	}
	require.Len(t, p.EC2.Snapshots(), 6)
	require.Empty(t, p.c.Held())
	next := p.backup(t, "--storage="+storage+"-3")
	require.Equal(t, brcompat.ExitDone, next.ends(t), "its storage is free: %s", next.out())
	require.Len(t, p.EC2.Snapshots(), 12)
}
