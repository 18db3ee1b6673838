package kube_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const patience = time.Minute

// lab is a server with an Operator, nodes in three zones and the adapter in front.
type lab struct {
	server  *kubetest.Server
	runtime *kubetest.IdleRuntime
	disks   *kubetest.MemoryDisks
	faults  *fault.Plan
	client  *kube.Client

	bindPatience, refusalPatience time.Duration
}

func newLab(t *testing.T, zones ...cluster.Zone) *lab {
	t.Helper()
	return newLabWith(t, kubetest.OperatorConfig{}, zones...)
}

func newLabWith(t *testing.T, cfg kubetest.OperatorConfig, zones ...cluster.Zone) *lab {
	t.Helper()
	l := openServer(t, 0, refusalPatience)
	if len(zones) == 0 {
		zones = []cluster.Zone{"us-west-2a", "us-west-2b", "us-west-2c"}
	}
	for i, zone := range zones {
		instance := cluster.InstanceID(fmt.Sprintf("i-%017x", i))
		require.NoError(t, l.server.AddNode(fmt.Sprintf("node-%d", i), instance, zone))
		l.disks.AddInstance(instance, zone)
	}
	cfg.Retry, cfg.Poll = 20*time.Millisecond, 20*time.Millisecond
	operator := kubetest.NewOperator(l.server.Objects, l.runtime, l.disks, cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		operator.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return l
}

// newServer is a lab without an Operator: nothing moves on its own.
func newServer(t *testing.T) *lab {
	t.Helper()
	return openServer(t, time.Nanosecond, refusalPatience) // nothing makes a volume Available
}

// refusalPatience is short, so that a refusal that stays is soon final.
const refusalPatience = 500 * time.Millisecond

func openServer(t *testing.T, bindPatience, refusals time.Duration) *lab {
	t.Helper()
	l := &lab{runtime: &kubetest.IdleRuntime{}, disks: &kubetest.MemoryDisks{}, faults: &fault.Plan{}}
	l.bindPatience, l.refusalPatience = bindPatience, refusals
	l.serve(t, kubetest.Config{Faults: l.faults, Namespace: "tidb"})
	return l
}

// serve starts the server and opens a client of it.
func (l *lab) serve(t *testing.T, cfg kubetest.Config) {
	t.Helper()
	l.server = kubetest.New(cfg)
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	client, err := kube.Open(kube.Config{Kubeconfig: path, Patience: l.refusalPatience, BindPatience: l.bindPatience})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	l.client = client
}

// start makes a cluster and waits until it is up.
func (l *lab) start(t *testing.T, opts kubetest.ClusterOptions) cluster.Name {
	t.Helper()
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(opts)))
	l.awaitUp(t, opts.Name, max(opts.TiDB, 1))
	return opts.Name
}

func (l *lab) awaitUp(t *testing.T, name cluster.Name, tidb int) {
	t.Helper()
	require.Eventually(t, func() bool {
		tc, err := l.client.Cluster(t.Context(), name)
		return err == nil && tc.TiDBReady == tidb && len(tc.Stores) == tc.TiKVReplicas
	}, patience, 5*time.Millisecond)
}

// awaitReady waits until all TiKV pods are ready.
func (l *lab) awaitReady(t *testing.T, name cluster.Name, count int) []kube.Pod {
	t.Helper()
	var pods []kube.Pod
	require.Eventually(t, func() bool {
		var err error
		pods, err = l.client.TiKVPods(t.Context(), name)
		if err != nil || len(pods) != count {
			return false
		}
		for _, p := range pods {
			if !p.Ready {
				return false
			}
		}
		return true
	}, patience, 5*time.Millisecond)
	return pods
}

func source(name string) cluster.Name { return cluster.Name{Namespace: "tidb", Name: name} }

func withField(o *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	c := o.DeepCopy()
	if err := unstructured.SetNestedField(c.Object, value, path...); err != nil {
		panic(err)
	}
	return c
}
