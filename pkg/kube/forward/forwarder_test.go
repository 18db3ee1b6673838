package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/forward"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const patience = time.Minute

// lab is a server and a client of it.
type lab struct {
	server *kubetest.Server
	faults *fault.Plan
	client *kube.Client
}

// echoes is a server whose pods answer each line with their name and the line.
func echoes(t *testing.T) *lab {
	t.Helper()
	l := &lab{faults: &fault.Plan{}}
	pods := &echoPods{}
	t.Cleanup(pods.alive.Wait)
	l.server = kubetest.New(kubetest.Config{Faults: l.faults, Namespace: "tidb", Connect: pods.connect})
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	var err error
	l.client, err = kube.Open(kube.Config{Kubeconfig: path, Patience: 500 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(l.client.Close)
	for i, name := range []string{"prod-pd-0", "prod-pd-1", "prod-tikv-0", "prod-tikv-1"} {
		require.NoError(t, l.server.Put(runningPod(name, fmt.Sprintf("uid-%d", i), name != "prod-pd-0")))
	}
	for _, name := range []string{"a-tikv-x7k2p9", "a-pd-b8m3q1", "a-pd-c9n4r2"} { // of Operator 2.x
		pod := runningPod(name, "uid-"+name, name != "a-pd-b8m3q1")
		component := strings.Split(name, "-")[1]
		pod.SetLabels(map[string]string{"pingcap.com/cluster": "two", "pingcap.com/group": "a", "pingcap.com/component": component})
		require.NoError(t, l.server.Put(pod))
	}
	return l
}

type echoPods struct{ alive sync.WaitGroup }

func (e *echoPods) connect(_ context.Context, _, pod string, port int) (net.Conn, error) {
	if port == 1 {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	e.alive.Go(func() {
		defer func() { _ = near.Close() }()
		for lines := bufio.NewScanner(near); lines.Scan(); {
			if lines.Text() == "bye" {
				return
			}
			if _, err := fmt.Fprintf(near, "%s:%d %s\n", pod, port, lines.Text()); err != nil {
				return
			}
		}
	})
	return far, nil
}

func runningPod(name, uid string, ready bool) *metav1.Unstructured {
	status := "False"
	if ready {
		status = "True"
	}
	return &metav1.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "tidb", "uid": uid},
		"spec":     map[string]any{"nodeName": "node-0", "containers": []any{map[string]any{"name": "main", "image": "x"}}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}},
	}}
}

func forwarder(t *testing.T, l *lab) *forward.Forwarder {
	t.Helper()
	f, err := l.client.Forward()
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func ask(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	_, err := io.WriteString(conn, text+"\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func TestForwarder_PodsAndServices_OneConnectionAPod(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	for address, want := range map[string]string{
		"prod-tikv-0.prod-tikv-peer.tidb.svc:20160":             "prod-tikv-0:20160",
		"prod-tikv-1.prod-tikv-peer.tidb.svc:20160":             "prod-tikv-1:20160",
		"prod-tikv-1.prod-tikv-peer.tidb.svc.example.org:20180": "prod-tikv-1:20180",
		"prod-pd.tidb.svc:2379":                                 "prod-pd-1:2379", // the one that is ready
		"a-tikv-x7k2p9.a-tikv-peer.tidb:20160":                  "a-tikv-x7k2p9:20160",
		"a-pd.tidb.svc:2379":                                    "a-pd-c9n4r2:2379",
		"two-pd.tidb.svc:2379":                                  "a-pd-c9n4r2:2379",
	} {
		t.Run(address, func(t *testing.T) {
			conn, err := f.Dial(t.Context(), address)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			for i := range 3 {
				assert.Equal(t, fmt.Sprintf("%s %d", want, i), ask(t, conn, fmt.Sprint(i)))
			}
			assert.Equal(t, address, conn.RemoteAddr().String())
		})
	}
	assert.Equal(t, 5, f.Times().Pods)
	assert.Equal(t, 5, f.Times().Opened)
	assert.Equal(t, 5, l.server.Forwards())
	f.Close()
	require.Eventually(t, func() bool { return l.server.Forwards() == 0 }, patience, time.Millisecond)
	_, err := f.Dial(t.Context(), "prod-tikv-0.prod-tikv-peer.tidb.svc:20160")
	assert.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

const store0 = "prod-tikv-0.prod-tikv-peer.tidb.svc:20160"

func TestForwarder_ManyAtOnce_ThroughOneConnection(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			conn, err := f.Dial(t.Context(), store0)
			if !assert.NoError(t, err) {
				return
			}
			defer func() { _ = conn.Close() }()
			long := strings.Repeat("x", 60_000)
			_, err = fmt.Fprintf(conn, "%d%s\n", i, long)
			assert.NoError(t, err)
			line, err := bufio.NewReader(conn).ReadString('\n')
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("prod-tikv-0:20160 %d%s\n", i, long), line)
		})
	}
	all.Wait()
	assert.Equal(t, 1, f.Times().Opened)
}

func TestForwarder_Breaks_NextDialOpensAgain(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(t *testing.T, l *lab){
		"connection cut":       func(_ *testing.T, l *lab) { l.server.BreakForwards() },
		"API server restarted": func(_ *testing.T, l *lab) { l.server.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := echoes(t)
			f := forwarder(t, l)
			conn, err := f.Dial(t.Context(), store0)
			require.NoError(t, err)
			require.Equal(t, "prod-tikv-0:20160 a", ask(t, conn, "a"))
			broken(t, l)
			_, err = conn.Read(make([]byte, 1))
			require.ErrorContains(t, err, "broke")
			require.NoError(t, conn.Close())
			require.Eventually(t, func() bool {
				conn, err = f.Dial(t.Context(), store0)
				return err == nil
			}, patience, 10*time.Millisecond)
			assert.Equal(t, "prod-tikv-0:20160 b", ask(t, conn, "b"))
			assert.Equal(t, 2, f.Times().Opened)
			assert.Equal(t, 1, f.Times().Pods)
		})
	}
}

// A pod that was made again has another sandbox: the old connection leads nowhere, and reports it in the error stream.
func TestForwarder_PodMadeAgain_SecondDialReachesIt(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	conn, err := f.Dial(t.Context(), store0)
	require.NoError(t, err)
	require.Equal(t, "prod-tikv-0:20160 a", ask(t, conn, "a"))
	pod := runningPod("prod-tikv-0", "", true)
	require.NoError(t, l.server.Remove(pod))
	_, err = f.Dial(t.Context(), store0)
	require.NoError(t, err, "the connection to the old sandbox is still there")
	require.NoError(t, l.server.Put(pod))
	require.Eventually(t, func() bool {
		again, err := f.Dial(t.Context(), store0)
		if err != nil {
			return false
		}
		_, _ = io.WriteString(again, "b\n")
		line, _ := bufio.NewReader(again).ReadString('\n')
		return line == "prod-tikv-0:20160 b\n"
	}, patience, 10*time.Millisecond)
	assert.Equal(t, "prod-tikv-0:20160 c", ask(t, conn, "c"), "what goes through the old connection is left alone")
}

func TestForwarder_ConnectionRefused_ReadFails(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	conn, err := f.Dial(t.Context(), "prod-tikv-0.prod-tikv-peer.tidb.svc:1")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorContains(t, err, "connection refused")
	assert.Equal(t, failure.Limited, failure.KindOf(err))
}

func TestForwarder_PodEndsConnection_IsEOF(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	conn, err := forwarder(t, l).Dial(t.Context(), store0)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "bye\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestForwarder_Refused_ErrorGivesTheReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string
		kind    failure.Kind
		text    string
	}{
		"no such pod":       {"prod-tikv-7.prod-tikv-peer.tidb.svc:20160", failure.NotFound, `pods "prod-tikv-7" not found`},
		"no such service":   {"copy-pd.tidb.svc:2379", failure.NotFound, "no pod of service tidb/copy-pd"},
		"not of Kubernetes": {"pd.example.org:2379", failure.Usage, "not the DNS name"},
		"no port":           {"prod-pd.tidb.svc", failure.Usage, "missing port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := forwarder(t, echoes(t)).Dial(t.Context(), c.address)
			require.ErrorContains(t, err, c.text)
			assert.Equal(t, c.kind, failure.KindOf(err))
		})
	}
	l := echoes(t)
	l.server.Deny("create", "pods/portforward")
	_, err := forwarder(t, l).Dial(t.Context(), store0)
	require.ErrorContains(t, err, `cannot create resource "pods/portforward"`)
	assert.Equal(t, failure.Denied, failure.KindOf(err))
}

func TestIsClusterAddress(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for address, want := range map[string]bool{
		"prod-pd.tidb.svc:2379": true, "prod-tikv-0.prod-tikv-peer.tidb.svc.cluster.local:20160": true, "PROD-PD.tidb.SVC:2379": true,
		"a-tikv-x7k2p9.a-tikv-peer.tidb:20160": true, "a-pd-b8m3q1.prod-cluster.tidb:2379": true,
		"a-tikv-x7k2p9.example.org:1": false, "store.a-peer.org:1": false, "a-pd.tidb:2379": false,
		"127.0.0.1:2379": false, "pd.example.org:2379": false, "prod-pd.tidb.svc": false, "a..svc:1": false, "[::1]:2": false, "svc:1": false,
	} {
		t.Run(address, func(t *testing.T) { assert.Equal(t, want, forward.IsClusterAddress(address)) })
	}
}

// Where something lets no SPDY pass, a WebSocket goes through, and the next pods are not tried by SPDY again.
func TestForwarder_NoSPDY_WebSocketCarriesIt(t *testing.T) {
	t.Parallel()
	for name, barrier := range map[string]kubetest.Barrier{
		"header taken away":   {},
		"refused by a proxy":  {Status: 405},
		"the proxy is broken": {Status: 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := echoes(t)
			l.server.BarSPDY(&barrier)
			f := forwarder(t, l)
			for _, address := range []string{store0, "prod-tikv-1.prod-tikv-peer.tidb.svc:20160"} {
				conn, err := f.Dial(t.Context(), address)
				require.NoError(t, err)
				long := strings.Repeat("x", 60_000)
				assert.Equal(t, strings.SplitN(address, ".", 2)[0]+":20160 "+long, ask(t, conn, long))
				require.NoError(t, conn.Close())
			}
			l.server.BreakForwards()
			require.Eventually(t, func() bool {
				conn, err := f.Dial(t.Context(), store0)
				return err == nil && conn.Close() == nil
			}, patience, 10*time.Millisecond)
			f.Close()
			require.Eventually(t, func() bool { return l.server.Forwards() == 0 }, patience, time.Millisecond)
		})
	}
}

func TestForwarder_NoSPDYAndNoWebSocket_ReportsBoth(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	l.server.BarSPDY(&kubetest.Barrier{})
	l.server.Deny("get", "pods/portforward")
	_, err := forwarder(t, l).Dial(t.Context(), store0)
	require.ErrorContains(t, err, "over SPDY: ")
	require.ErrorContains(t, err, "Upgrade request required")
	require.ErrorContains(t, err, `cannot get resource "pods/portforward"`)
	assert.Equal(t, failure.Denied, failure.KindOf(err))
}

// A refusal of Kubernetes itself is the answer: WebSocket needs more permissions than SPDY.
func TestForwarder_RefusedBySPDY_TriesNoWebSocket(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	l.faults.Watch(func(point string) *fault.Rule {
		switch point {
		case "kube.create.pods.portforward":
			return &fault.Rule{Position: fault.Before, Code: "ServiceUnavailable"}
		case "kube.get.pods.portforward":
			assert.Fail(t, "a WebSocket was tried")
		}
		return nil
	})
	_, err := f.Dial(t.Context(), store0)
	require.Error(t, err)
}

// A dial that cannot wait for a slow API server leaves the opening to the next one.
func TestForwarder_SlowOpening_IsFoundByTheNextDial(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	var asks atomic.Int32
	asked, slow := make(chan struct{}), make(chan struct{})
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.pods.portforward", Position: fault.Slow, Times: -1, Do: func() {
		if asks.Add(1) == 1 {
			close(asked)
		}
		<-slow
	}}))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := f.Dial(ctx, store0)
		first <- err
	}()
	<-asked
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(slow)
	conn, err := f.Dial(t.Context(), store0)
	require.NoError(t, err)
	assert.Equal(t, "prod-tikv-0:20160 a", ask(t, conn, "a"))
	assert.EqualValues(t, 1, asks.Load(), "it was asked for once")
}

// The end of a forwarder ends an opening that no one waits for any longer.
func TestForwarder_ClosedWhileItOpens_Ends(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	f := forwarder(t, l)
	asked, slow := make(chan struct{}), make(chan struct{})
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.pods.portforward", Position: fault.Slow, Times: 1, Do: func() {
		close(asked)
		<-slow
	}}))
	first := make(chan error, 1)
	go func() {
		_, err := f.Dial(t.Context(), store0)
		first <- err
	}()
	<-asked
	f.Close()
	require.Error(t, <-first)
	close(slow)
}
