package drill_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/storage"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/tidb"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

const (
	runID = cluster.RunID("20261127t180000-abcdef01")
	zone  = "us-west-2a"
	// outside is the namespace from which probes must not reach the cage.
	outside = "default"

	speed  = 300
	hidden = 300 * time.Millisecond // how long the stand-in may hide a volume, and some more, in real time
)

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// lab is a storage, EC2 and Kubernetes, in which a restore makes a TidbCluster that serves, with one volume.
type lab struct {
	store  *objstoretest.Memory
	ec2    *ebstest.Server
	ebs    *ebs.Client
	server *kubetest.Server
	kube   *kube.Client
	faults *fault.Plan // of Kubernetes
	ec2Err *fault.Plan
	// operator is the generation of TiDB Operator that the restored clusters are of; only 2.x runs, as it takes part in
	// their deletion.
	operator int

	mu       sync.Mutex
	policies int // of the cage when the restore began
	restores int
	last     drill.Target
	// during runs in the restore, when its cluster exists; its error is the restore's.
	during func(to drill.Target) error
	db     *database
	open   bool // the cage cannot be proven
	// proving runs when a probe listens outside of the cage.
	proving func()
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return newLabOf(t, 1)
}

func newLabOf(t *testing.T, operator int) *lab {
	t.Helper()
	l := &lab{store: objstoretest.NewMemory(nil), faults: &fault.Plan{}, ec2Err: &fault.Plan{}, db: &database{}, operator: operator}
	clock := timescale.New(speed)
	l.ec2 = ebstest.New(ebstest.Config{Clock: clock, Faults: l.ec2Err, Rules: ebstest.QuickRules(), Seed: 1})
	require.NoError(t, l.ec2.Start())
	t.Cleanup(l.ec2.Close)
	var err error
	l.ebs, err = ebs.Open(t.Context(), ebs.Config{Region: l.ec2.Region(), Endpoint: l.ec2.URL(), Clock: clock})
	require.NoError(t, err)
	t.Cleanup(l.ebs.Close)
	l.server = kubetest.New(kubetest.Config{Faults: l.faults, Namespace: "tidb"})
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": map[string]any{
			"name": "kubernetes", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": "kubernetes"},
		},
		"endpoints": []any{map[string]any{"addresses": []any{"10.0.9.9"}}},
		"ports":     []any{map[string]any{"name": "https", "port": int64(443), "protocol": "TCP"}},
	}}))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	l.kube, err = kube.Open(kube.Config{Kubeconfig: path, Patience: time.Second, BindPatience: time.Nanosecond})
	require.NoError(t, err)
	t.Cleanup(l.kube.Close)
	if operator == 2 {
		l.runOperator(t)
	}
	return l
}

// runOperator runs TiDB Operator 2.x, with a node.
func (l *lab) runOperator(t *testing.T) {
	t.Helper()
	disks := &kubetest.MemoryDisks{}
	disks.AddInstance("i-0", zone)
	require.NoError(t, l.server.AddNode("node-0", "i-0", zone))
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	of := kubetest.NewOperator(l.server.Objects, &kubetest.IdleRuntime{}, disks, kubetest.OperatorConfig{
		Retry: 20 * time.Millisecond, Poll: 20 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		of.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

func (l *lab) deps() drill.Deps {
	return drill.Deps{
		Store: l.store, Kube: l.kube, Cages: l.kube.Cages(), Probes: network{l}, EBS: l.ebs,
		Plan: func(context.Context, cluster.Name) (drill.Planned, error) {
			return drill.Planned{Stores: 1, Volumes: 1, StorageGiB: 10}, nil
		},
		Restore: l.restore,
		Open:    func(context.Context, cluster.Name) (drill.Database, error) { return l.db, l.db.refused },
	}
}

func options() drill.Options {
	return drill.Options{
		Run: runID, Owner: runlock.NewOwner(runID, "drill"), Tool: "v0", Backup: "nightly-1", Cluster: prod, ClusterID: 7,
		Checks: checks.Options{
			AllTables: true, Budget: 20 * time.Second, Each: 10 * time.Second,
			BackupTS: cluster.MakeTS(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), 0),
		},
		From: []string{"tidb-admin"}, Outside: outside, Visibility: hidden, Poll: 5 * time.Millisecond,
		TearDownWithin: 20 * time.Second, LockWait: runlock.NoWait,
	}
}

// restore makes what a restore makes, by the same calls, and leaves recovery mode.
func (l *lab) restore(ctx context.Context, to drill.Target) (drill.Restored, error) {
	return l.restoreWith(ctx, to, l.during)
}

func (l *lab) restoreWith(ctx context.Context, to drill.Target, during func(drill.Target) error) (drill.Restored, error) {
	l.mu.Lock()
	l.restores++
	l.last = to
	l.policies = len(l.server.List("networkpolicies", to.Cluster.Namespace))
	l.mu.Unlock()
	source, v, err := l.recorded(to)
	if err != nil {
		return drill.Restored{}, err
	}
	if err := l.kube.CreateCluster(ctx, source, kube.Target{Name: to.Cluster, Run: to.Run}, v); err != nil {
		return drill.Restored{}, err
	}
	tags := ebs.Tags{ebs.TagRun: string(to.Run), ebs.TagStorage: l.storageID(ctx)}
	for key, value := range to.Tags {
		tags[key] = value
	}
	v.Volume, err = l.ec2.CreateVolumeDirect(zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, tags)
	if err != nil {
		return drill.Restored{}, err
	}
	if err := l.kube.BindVolume(ctx, v); err != nil {
		return drill.Restored{}, err
	}
	if l.operator == 2 {
		err = l.kube.StartTiKV(ctx, to.Cluster, v)
	} else {
		err = l.kube.LeaveRecovery(ctx, to.Cluster)
	}
	if err != nil {
		return drill.Restored{}, err
	}
	if during != nil {
		if err := during(to); err != nil {
			return drill.Restored{}, err
		}
	}
	return drill.Restored{Serves: true}, nil
}

// recorded are a cluster and its volume as a backup has them, with what a restore makes of it.
func (l *lab) recorded(to drill.Target) (json.RawMessage, kube.RestoredVolume, error) {
	v := kube.RestoredVolume{
		Cluster: to.Cluster, Run: to.Run, Role: cluster.RoleData, MountPath: "/var/lib/tikv", Zone: zone, SizeGiB: 10,
	}
	text, err := os.ReadFile(filepath.Join("..", "kube", "testdata", "clustermeta.json"))
	if err != nil {
		return nil, v, err
	}
	var doc struct {
		Kubernetes struct{ PVCs, PVs []json.RawMessage }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, v, err
	}
	v.Claim, v.Object = doc.Kubernetes.PVCs[0], doc.Kubernetes.PVs[0]
	of := cluster.Name{Namespace: "tidb", Name: "src"}
	source, err := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: of, TiKV: 1}).MarshalJSON()
	if err != nil || l.operator == 1 {
		return source, v, err
	}
	made, err := operator2.Translate(source, []json.RawMessage{v.Claim})
	if err != nil {
		return nil, v, err
	}
	v.Claim = made.Claims[0]
	source, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": made.Objects})
	return source, v, err
}

func (l *lab) storageID(ctx context.Context) string {
	found, err := storage.Read(ctx, l.store)
	if err != nil {
		return ""
	}
	return found.ID
}

// loseLock makes the drill's process one that is as good as dead: it may change nothing any more.
func (l *lab) loseLock(t *testing.T) {
	t.Helper()
	about := journal.About{Operation: journal.Drill, Cluster: prod}
	held, _, err := runlock.Read(within(t), l.store, about.Lock())
	require.NoError(t, err)
	require.NoError(t, runlock.Break(within(t), l.store, about.Lock(), held.Epoch))
}

// requireNothing requires that nothing of a drill is left.
func (l *lab) requireNothing(t *testing.T) {
	t.Helper()
	require.Empty(t, l.server.List("namespaces", ""))
	for _, kind := range []string{"tidbclusters", "persistentvolumeclaims", "persistentvolumes", "pods"} {
		require.Empty(t, l.server.List(kind, ""), kind)
	}
	require.Empty(t, l.volumes())
}

// volumes are those that exist.
func (l *lab) volumes() (out []ebs.Volume) {
	for _, v := range l.ec2.Volumes() {
		if v.State != ebs.VolumeDeleting && v.State != ebs.VolumeDeleted {
			out = append(out, v)
		}
	}
	return out
}

// records are those of the drill's journal.
func (l *lab) records(t *testing.T) []phase.Record {
	t.Helper()
	records, err := journal.NewStoreJournal(l.store, manifest.JournalPrefix(runID)).Records(within(t))
	require.NoError(t, err)
	return records
}

// askedForVolumes writes the journal of a restore that died after it had asked for volumes.
func (l *lab) askedForVolumes(t *testing.T, to drill.Target) {
	t.Helper()
	about, err := json.Marshal(journal.About{Operation: journal.Restore, Cluster: to.Cluster})
	require.NoError(t, err)
	j := journal.NewStoreJournal(l.store, manifest.JournalPrefix(to.Run))
	for i, r := range []phase.Record{
		{Type: phase.RecordRun, Data: about}, {Type: phase.RecordBegin, Step: journal.StepCreateVolumes},
	} {
		r.Seq, r.Run = i+1, to.Run
		require.NoError(t, j.Append(within(t), r))
	}
}

// otherTarget is a cluster that another run has restored, with its volume.
func (l *lab) otherTarget(t *testing.T) string {
	t.Helper()
	_, err := l.restore(within(t), drill.Target{Run: "other", Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}})
	require.NoError(t, err)
	return "copy"
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// network is probes of a network that keeps to the policies, unless it is open. Their pods stay until the drill is torn
// down.
type network struct{ *lab }

func (n network) Listen(_ context.Context, namespace, _ string) (string, error) {
	if err := n.probe(namespace, runID); err != nil {
		return "", err
	}
	if n.proving != nil && namespace == outside {
		n.proving()
	}
	if n.open && namespace == outside {
		return "", failure.New(failure.Unready, "probe", namespace, "it ignores policies")
	}
	return namespace + ":1", nil
}

// probe puts a pod of a run.
func (l *lab) probe(namespace string, run cluster.RunID) error {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"containers": []any{map[string]any{"name": "probe", "image": "busybox"}}},
	}}
	pod.SetNamespace(namespace)
	pod.SetName("tisnap-probe-of-" + string(run))
	runmark.Put(pod, run)
	return l.server.Put(pod)
}

func (n network) Connect(_ context.Context, namespace, _, address string) (bool, error) {
	to, _, _ := strings.Cut(address, ":")
	return namespace == to, nil
}

func (n network) Remove(context.Context, string) error { return nil }

// database has one table.
type database struct {
	tidb.Database
	refused error // by Open
	broken  error // what its check finds
	none    bool  // it has no table
	stalls  bool
	rested  bool
	during  func()
}

func (d *database) Tables(context.Context) ([]tidb.Table, error) {
	if d.none {
		return nil, nil
	}
	return []tidb.Table{{Schema: "bank", Name: "ledger"}}, nil
}

func (d *database) CheckTable(ctx context.Context, _ tidb.Table) error {
	if d.during != nil {
		d.during()
	}
	if d.stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.broken
}

func (d *database) Rest(context.Context) error {
	d.rested = true
	return nil
}

func (d *database) Close() {}
