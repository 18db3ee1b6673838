package testbed

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// Region is where the testbed pretends to be.
const Region = "us-west-2"

// AwayRegion is the region of Testbed.Away.
const AwayRegion = "eu-west-1"

// VaultAccount is the account of Testbed.Vault.
const VaultAccount = "222222222222"

// namespace is that of the kubeconfig, in which clusters are.
const namespace = "tidb"

// Bucket is the bucket that exists from the start.
const Bucket = "backups"

// Config shapes a testbed. The zero value is six nodes in three zones at real speed without faults.
type Config struct {
	Dir string // for the kubeconfig
	// Kubeconfig, if not empty, is that of a real control plane without pods, in which the user may do everything: it takes
	// the place of the stand-in's API server and controllers.
	Kubeconfig string
	Nodes      int
	// Operator is the generation of TiDB Operator that makes CreateCluster's clusters, 1 or 2; 0 is 1. Both run.
	Operator int
	// Scale makes EC2's and the Operator's time run so many times as fast; leases of PD and TiKV stay real.
	Scale  float64
	Seed   int64
	Faults *fault.Plan
	Rules  *ebstest.Rules // nil is ebstest.QuickRules
	Keys   []string       // of KMS, as in ebstest.Config
	TiKV   tikvtest.Options
	// TiKVScale is how many times as fast what a store waits for by its own clock passes: its first report to PD
	// (10 s), raft's ticks (1 s, not below 100 ms), and its tries at PD's first region (3 s). 0 is 20. TiKV's answers are not scaled.
	TiKVScale float64
	// StaticRegions, if positive, makes all stores static: each leads so many regions, and serves no keys.
	StaticRegions int
	// Boot is how the regions of a cluster that CreateCluster makes are placed.
	Boot tikvtest.Placement
	PD   pdtest.Config // its Faults are the testbed's
	// DNSNames makes PD and the stores known by the DNS names of their pods, which resolve only inside a real cluster:
	// their ports are those of 127.0.0.1. The workload does not know these names.
	DNSNames bool
	// ClusterDomain ends those names, as a TidbCluster's spec.clusterDomain has it; "" leaves them at svc.
	ClusterDomain string
	// HostsFile, if not empty, makes each pod have an address of its own on loopback, with the ports that it has in a real
	// cluster; the names that lead to them are in this file, which is written in place. It goes with DNSNames, and is
	// for an Operator 2.x that is another process: whoever asks must have the file as /etc/hosts.
	HostsFile string
	// TLS, if not nil, is what PD and the stores speak, and the testbed's own client of PD; TidbClusters that CreateCluster
	// makes have it on. The workload has files of its own for it, and secrets are put there by the test.
	TLS *tls.Config
	// PodStart is how long a pod takes from its node to its process, Resync what passes between a component that serves and
	// the Operator's next step; both in virtual time.
	PodStart, Resync time.Duration
	// Collect is what passes, in virtual time, until the garbage collector sees that a TidbCluster is gone.
	Collect time.Duration
	// OtherDisks installs another CSI driver, OtherDriver, with a StorageClass of its own: OtherClass.
	OtherDisks bool
	// Runtime, if not nil, may replace what starts and stops the processes of pods.
	Runtime func(kubetest.Runtime) kubetest.Runtime
	Logf    func(format string, args ...any)
	// Observe is called when EC2 has answered a call that is no dry run, with what it took in real time. nil is not.
	Observe func(action string, took time.Duration)
}

// Testbed is the running stand-ins. Close it.
type Testbed struct {
	cfg   Config
	EC2   *ebstest.Server
	Away  *ebstest.Server // the same account in another region, which has no instances
	Vault *ebstest.Server // another account in that region
	S3    *objstoretest.Server
	Kube  *kubetest.Server // nil with a real control plane
	Nodes *Kubelet
	// IgnorePolicies makes the network one that ignores network policies.
	IgnorePolicies atomic.Bool
	// Disks are the volumes of OtherDriver; nil without it.
	Disks *Disks
	// Objects are those of Kubernetes, whoever serves them.
	Objects *kubetest.Objects

	world  *ebstest.World
	clock  timescale.Clock
	real   *kubetest.Real // nil without a real control plane
	beside *Testbed       // whose EC2 and S3 these are, and whose PDs clusters may join; nil for the first one
	aws    *httptest.Server
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Start starts everything but clusters. ctx bounds the testbed's life; Close ends it earlier.
func Start(ctx context.Context, cfg Config) (*Testbed, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 6
	}
	if cfg.Scale == 0 {
		cfg.Scale = 1
	}
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	cfg.TiKV = waits(cfg.TiKV, cfg.TiKVScale)
	ctx, cancel := context.WithCancel(ctx)
	t := &Testbed{cfg: cfg, cancel: cancel, clock: timescale.New(cfg.Scale)}
	here := ebstest.Config{Region: Region, Clock: t.clock, Faults: cfg.Faults, Rules: cfg.Rules, Keys: cfg.Keys, Seed: uint64(cfg.Seed)}
	away := here
	away.Region = AwayRegion
	vault := away
	vault.Account = VaultAccount
	beside := vault // where that account reads what is shared with it
	beside.Region = Region
	t.world = ebstest.NewWorld(here, away, vault, beside)
	servers := t.world.Servers()
	t.EC2, t.Away, t.Vault = servers[0], servers[1], servers[2]
	ebsdirecttest.New(t.EC2, ebsdirecttest.Config{Clock: t.clock, Faults: cfg.Faults})
	t.S3 = objstoretest.New(objstoretest.Config{Faults: cfg.Faults, Points: objectPoints})
	t.S3.CreateBucket(Bucket)
	t.aws = httptest.NewServer(http.HandlerFunc(t.serveAWS))
	if err := t.startKubernetes(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// startKubernetes starts the API server, the nodes and the Operator.
func (t *Testbed) startKubernetes(ctx context.Context) error {
	cfg := t.cfg
	if err := t.openAPI(ctx); err != nil {
		return err
	}
	if err := t.Objects.AddStorageClass("ebs-sc"); err != nil {
		return err
	}
	if err := t.addNodes(); err != nil {
		return err
	}
	t.Nodes = newKubelet(t, cfg)
	var runtime kubetest.Runtime = t.Nodes
	if cfg.Runtime != nil {
		runtime = cfg.Runtime(runtime)
	}
	operator := kubetest.NewOperator(t.Objects, runtime, csi{t.EC2, cfg.Faults}, kubetest.OperatorConfig{
		Clock: t.clock, PodStart: cfg.PodStart, Resync: cfg.Resync, Collect: cfg.Collect, Poll: 200 * time.Millisecond, Logf: cfg.Logf,
		Drivers: t.otherDrivers(),
	})
	t.wg.Go(func() { operator.Run(ctx) })
	if t.Kube != nil { // the real one has its own
		t.wg.Go(func() { t.Objects.RunProbes(ctx, t.IgnorePolicies.Load) })
		return t.Objects.AddAPIServer()
	}
	return nil
}

// addNodes adds the nodes, and what the drivers of volumes need.
func (t *Testbed) addNodes() error {
	var drivers []string
	if t.cfg.OtherDisks {
		t.Disks = newDisks()
		drivers = append(drivers, OtherDriver)
		if err := t.Objects.AddStorageClassOf(OtherClass, OtherDriver); err != nil {
			return err
		}
	}
	for i := range t.cfg.Nodes {
		zone := cluster.Zone(t.EC2.Region() + string("abc"[i%3]))
		instance := t.EC2.AddInstance(zone)
		if err := t.Objects.AddNode(fmt.Sprintf("node-%d", i), instance, zone, drivers...); err != nil {
			return err
		}
		if t.Disks != nil {
			t.Disks.memory.AddInstance(instance, zone)
		}
	}
	return nil
}

// openAPI starts the API server, or connects to the real one.
func (t *Testbed) openAPI(ctx context.Context) error {
	cfg := t.cfg
	if cfg.Kubeconfig == "" {
		t.Kube = kubetest.New(kubetest.Config{Faults: cfg.Faults, Clock: t.clock, Namespace: namespace, Connect: t.connectPod})
		t.Objects = t.Kube.Objects
		if err := t.Kube.Start(ctx); err != nil {
			return err
		}
		return t.Kube.WriteKubeconfig(t.Kubeconfig())
	}
	var err error
	if t.real, err = kubetest.Connect(ctx, cfg.Kubeconfig, cfg.Logf); err != nil {
		return err
	}
	t.Objects = t.real.Objects
	return t.Objects.AddNamespace(namespace)
}

// Close stops all clusters and servers and waits for them.
func (t *Testbed) Close() {
	t.cancel()
	t.wg.Wait()
	if t.Nodes != nil {
		t.Nodes.stopAll()
	}
	if t.Kube != nil {
		t.Kube.Close()
	}
	if t.real != nil {
		t.real.Close()
	}
	if t.beside != nil {
		return // AWS is the other's
	}
	if t.aws != nil {
		t.aws.CloseClientConnections()
		t.aws.Close()
	}
	t.EC2.Close()
}

// serveAWS is the one endpoint of AWS_ENDPOINT_URL: EC2 and STS are form posts to /, the EBS direct APIs are signed for
// them, all else is S3.
func (t *Testbed) serveAWS(w http.ResponseWriter, r *http.Request) {
	if ebstest.IsDirect(r) {
		t.EC2.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodPost && r.URL.Path == "/" && r.URL.RawQuery == "" {
		start := time.Now()
		t.world.ServeHTTP(w, r)
		if t.cfg.Observe != nil && r.Form.Get("DryRun") != "true" {
			t.cfg.Observe(r.Form.Get("Action"), time.Since(start))
		}
		return
	}
	t.S3.ServeHTTP(w, r)
}

// Kubeconfig is the path of the kubeconfig file.
func (t *Testbed) Kubeconfig() string {
	return cmp.Or(t.cfg.Kubeconfig, filepath.Join(t.cfg.Dir, "kubeconfig"))
}

// AWS is the endpoint of EC2, STS and S3.
func (t *Testbed) AWS() string { return t.aws.URL }

// Env is what a process needs in its environment to reach the testbed.
func (t *Testbed) Env() []string {
	return append(awsenv.List(), "AWS_ENDPOINT_URL="+t.AWS(), "AWS_REGION="+t.EC2.Region(), "KUBECONFIG="+t.Kubeconfig())
}

// MutatingCalls lists all calls over the network that changed something in EC2, S3 and the stand-in of Kubernetes, and in
// the PDs and stores of the clusters that run. The object that a check of the storage writes and deletes is left out.
func (t *Testbed) MutatingCalls() []string {
	var calls []string
	for _, c := range t.EC2.MutatingCalls() {
		calls = append(calls, "ec2 "+c)
	}
	for _, c := range t.S3.MutatingCalls() {
		if !strings.Contains(c, "/"+manifest.ProbesPrefix) {
			calls = append(calls, "s3 "+c)
		}
	}
	if t.Kube != nil {
		for _, c := range t.Kube.MutatingCalls() {
			calls = append(calls, "kube "+c)
		}
	}
	return append(calls, t.Nodes.mutatingCalls()...)
}
