package kube_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
)

const (
	// patience is how long a condition may take on a machine that is busy with other things.
	patience = 5 * time.Minute
	poll     = 100 * time.Millisecond
	class    = "ebs-sc"
)

// system is an API server with the binder of claims behind it, and a namespace of its own in it.
type system struct {
	kubeconfig string
	namespace  string
	run        cluster.RunID
	client     *kube.Client // the adapter, which may do everything
	core       kubernetes.Interface
	dynamic    dynamic.Interface
	config     *rest.Config
	standIn    *kubetest.Server // nil for the real one
	disks      driver           // the stand-in's
}

// opened counts the systems, so that each has names of its own in a control plane that they share.
var opened atomic.Int64

// openReal is a namespace of the real control plane.
func openReal(t *testing.T) system {
	t.Helper()
	needsPlane(t)
	s := newSystem(t, shared.Kubeconfig("admin"))
	_, err := s.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	_, err = s.core.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &wait,
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	return s
}

// openOwn is a control plane of the test's own, whose binder looks at everything so often; 0 is Kubernetes' own 15 s.
func openOwn(t *testing.T, sync time.Duration) (system, *plane.Plane) {
	t.Helper()
	needsPlane(t)
	built := os.Getenv(folder)
	own, err := plane.Start(plane.Config{Program: built + "/controlplane", CRDs: built + "/crds", Dir: t.TempDir(), BinderSync: sync})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	s := newSystem(t, own.Kubeconfig("admin"))
	_, err = s.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return s, own
}

// openStandIn is an API server of the testbed, whose Operator plays the controllers.
func openStandIn(t *testing.T) system {
	t.Helper()
	server := kubetest.New(kubetest.Config{})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, server.WriteKubeconfig(path))
	s := newSystem(t, path)
	s.standIn = server
	require.NoError(t, server.AddStorageClass(class))
	s.disks = newDriver()
	operator := kubetest.NewOperator(server.Objects, &kubetest.IdleRuntime{}, s.disks, kubetest.OperatorConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		operator.Run(t.Context())
	}()
	t.Cleanup(func() { <-done }) // the test's context has ended by then
	return s
}

func newSystem(t *testing.T, kubeconfig string) system {
	t.Helper()
	n := opened.Add(1)
	s := system{kubeconfig: kubeconfig, namespace: fmt.Sprintf("test-%d", n), run: cluster.RunID(fmt.Sprintf("rst-20261122-%d", n))}
	s.client = adapter(t, kube.Config{Kubeconfig: kubeconfig}) // first: it silences klog, which client-go reads
	var err error
	s.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	s.config.QPS = -1
	client, err := rest.HTTPClientFor(s.config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	s.core, err = kubernetes.NewForConfigAndClient(s.config, client)
	require.NoError(t, err)
	s.dynamic, err = dynamic.NewForConfigAndClient(s.config, client)
	require.NoError(t, err)
	return s
}

// adapter opens what is tested. A refusal counts soon, as nothing restarts the API server meanwhile.
func adapter(t *testing.T, cfg kube.Config) *kube.Client {
	t.Helper()
	cfg.Patience = 300 * time.Millisecond
	client, err := kube.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func (s system) name(name string) cluster.Name {
	return cluster.Name{Namespace: s.namespace, Name: name}
}

func (s system) clusters() dynamic.ResourceInterface {
	return s.dynamic.Resource(schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}).Namespace(s.namespace)
}

// source is a TidbCluster as it is in a backup.
func source(t *testing.T) json.RawMessage {
	t.Helper()
	o := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: cluster.Name{Namespace: "tidb", Name: "src"}, StorageClass: class})
	text, err := o.MarshalJSON()
	require.NoError(t, err)
	return text
}

func (s system) target(name string) kube.Target {
	return kube.Target{Name: s.name(name), Run: s.run}
}

// volume is a volume to bind, from objects that were recorded from a real cluster.
func (s system) volume(t *testing.T, target string, ordinal int) kube.RestoredVolume {
	t.Helper()
	text, err := os.ReadFile("../../pkg/kube/testdata/clustermeta.json")
	require.NoError(t, err)
	var doc struct {
		Kubernetes struct{ PVCs, PVs []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	return kube.RestoredVolume{
		Cluster: s.name(target), Run: s.run, Ordinal: ordinal, Role: cluster.RoleData, MountPath: "/var/lib/tikv",
		Volume: cluster.VolumeID(fmt.Sprintf("vol-%s-%d", s.namespace, ordinal)), Zone: "us-west-2b", SizeGiB: 10,
		Claim: doc.Kubernetes.PVCs[0], Object: doc.Kubernetes.PVs[0],
	}
}

// volumes are the PVs of the system's run.
func (s system) volumes(t *testing.T) []corev1.PersistentVolume {
	t.Helper()
	list, err := s.core.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{LabelSelector: runmark.Key + "=" + string(s.run)})
	require.NoError(t, err)
	return list.Items
}

func (s system) claims(t *testing.T) []corev1.PersistentVolumeClaim {
	t.Helper()
	list, err := s.core.CoreV1().PersistentVolumeClaims(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return list.Items
}

// nothing requires that the run has made nothing that stays.
func (s system) nothing(t *testing.T) {
	t.Helper()
	require.Empty(t, s.volumes(t))
	require.Empty(t, s.claims(t))
	list, err := s.clusters().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// eventually polls until ok, for as long as a busy machine may take. ok may end the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-end:
			require.Fail(t, "it never came", what)
		case <-ticker.C:
		}
	}
}
