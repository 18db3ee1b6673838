package kube_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

const (
	// realOperator2 names the variable with a folder that has a TiDB Operator 2.x which was built elsewhere: the program
	// tidb-operator, and its definitions in crds, those of br.pingcap.com too.
	realOperator2 = "TISNAP_TEST_OPERATOR2"
	// hostsFile names the variable with the file that is this process's /etc/hosts.
	hostsFile = "TISNAP_TEST_HOSTS"
	// realDeadline bounds what is done with a real Operator, which polls PD every 30 s.
	realDeadline = 15 * time.Minute
)

// withNames runs the test again as a process of its own whose /etc/hosts is a file that the testbed writes, and reports there
// which one: the Operator, tisnap and the test itself know PD and the stores by the names of their pods.
func withNames(t *testing.T) (hosts string) {
	t.Helper()
	needsPlane(t)
	if os.Getenv(realOperator2) == "" {
		t.Skip(realOperator2 + " is not set")
	}
	if hosts = os.Getenv(hostsFile); hosts != "" {
		return hosts
	}
	hosts = filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), realDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/hosts; shift; exec "$@"`, "names", hosts,
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+realDeadline.String())
	cmd.Env = append(os.Environ(), hostsFile+"="+hosts)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	require.NoError(t, cmd.Run())
	return ""
}

// realOperator is the control plane with a real TiDB Operator 2.x.
type realOperator struct{ dir string }

// openOperator2 has the definitions of the real Operator be served.
func openOperator2(t *testing.T) *realOperator {
	t.Helper()
	newSystem(t, shared.Kubeconfig("admin")).serveOperator2(t)
	return &realOperator{dir: t.TempDir()}
}

func definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// serveOperator2 has the definitions of the real Operator be served.
func (s system) serveOperator2(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv(realOperator2), "crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var o unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal(text, &o.Object))
		_, err = s.dynamic.Resource(definitions()).Create(t.Context(), &o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.awaitOperator2(t)
}

// awaitOperator2 waits until what a restore makes is served.
func (s system) awaitOperator2(t *testing.T) {
	t.Helper()
	for _, resource := range append(operator2.Groups(), operator2.Clusters, operator2.TiKVs) {
		eventually(t, resource+" are served", func() bool {
			_, err := s.dynamic.Resource(operator2.Resource(resource)).List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

// start starts the Operator, with the AWS of the testbed.
func (o *realOperator) start(t *testing.T, bed *testbed.Testbed) {
	t.Helper()
	log, err := os.Create(filepath.Join(o.dir, "operator.log"))
	require.NoError(t, err)
	program := filepath.Join(os.Getenv(realOperator2), "tidb-operator")
	args := []string{"--kubeconfig=" + shared.Kubeconfig("admin"), "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"}
	const leave = "-skip-crds-management"
	if help, _ := exec.CommandContext(t.Context(), program, "--help").CombinedOutput(); strings.Contains(string(help), leave) {
		args = append(args, leave) // 2.0 never manages its definitions
	}
	cmd := exec.Command(program, args...) //nolint:noctx // ended below, after what uses it
	cmd.Env = append(os.Environ(), bed.Env()...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		if keep := os.Getenv("TISNAP_TEST_KEEP_LOG"); keep != "" {
			_ = os.WriteFile(keep, text, 0o600)
		}
		require.NotContains(t, string(text), "Observed a panic")
	})
}

// tisnap runs the shipped program with the roles that users apply.
func (o *realOperator) tisnap(t *testing.T, bed *testbed.Testbed) round.Tisnap {
	t.Helper()
	program, err := shipped.Program()
	require.NoError(t, err)
	accounts := map[string]string{}
	for _, file := range []string{"rbac-backup", "rbac"} {
		accounts[file], err = shared.Account(t.Context(), "../../manifests/"+file+".yaml")
		require.NoError(t, err)
	}
	return func(ctx context.Context, args []string, out io.Writer) (int, error) {
		account := accounts["rbac"]
		if args[0] == "backup" {
			account = accounts["rbac-backup"]
		}
		output := &shipped.Output{}
		cmd := exec.CommandContext(ctx, program, append(args, "--progress", "plain")...)
		cmd.Env = append(append(os.Environ(), bed.Env()...), "KUBECONFIG="+account)
		cmd.Stdout, cmd.Stderr = output, output
		if out != nil {
			cmd.Stdout = out
		}
		err := cmd.Run()
		fmt.Fprintf(os.Stderr, "$ tisnap %s\n%s\n", strings.Join(args, " "), output)
		if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
			return cmd.ProcessState.ExitCode(), nil
		}
		return 0, err
	}
}

// A whole round with the real Operator: every row is right.
func TestRealOperator2_Round_EveryRowIsRight(t *testing.T) {
	hosts := withNames(t)
	if hosts == "" {
		return
	}
	o := openOperator2(t)
	ctx, cancel := context.WithTimeout(t.Context(), realDeadline)
	defer cancel()
	r, err := round.Run(ctx, round.Config{
		Dir: t.TempDir(), Seed: 7, Scale: 1, Accounts: 2000, Regions: 8, Operator: 2, Timeout: 5 * time.Minute,
		Kubeconfig: shared.Kubeconfig("admin"), HostsFile: hosts,
		BackupFlags: []string{"--via", "direct"}, RestoreFlags: []string{"--via", "direct"},
		Tisnap: func(bed *testbed.Testbed) round.Tisnap {
			o.start(t, bed)
			return o.tisnap(t, bed)
		},
		Progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "» "+format+"\n", args...) },
		Logf:     func(format string, args ...any) { fmt.Fprintf(os.Stderr, "· "+format+"\n", args...) },
	})
	require.NoError(t, err)
	t.Log(r.Checks)
}

// running reports how many pods of a cluster's stores run.
func running(bed *testbed.Testbed, name string) (n int) {
	for _, pod := range bed.Objects.List("pods", "tidb") {
		labels := pod.GetLabels()
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		if labels["pingcap.com/cluster"] == name && labels["pingcap.com/component"] == "tikv" && phase == "Running" {
			n++
		}
	}
	return n
}

// left lists what is left of a cluster.
func left(bed *testbed.Testbed, name string) (all []string) {
	for _, resource := range []string{"clusters", "pdgroups", "tikvgroups", "tidbgroups", "pds", "tikvs", "tidbs", "pods", "persistentvolumeclaims", "persistentvolumes"} {
		namespace := "tidb"
		if resource == "persistentvolumes" {
			namespace = ""
		}
		for _, o := range bed.Objects.List(resource, namespace) {
			if of := o.GetLabels()["pingcap.com/cluster"]; o.GetName() == name || of == name {
				all = append(all, resource+"/"+o.GetName())
			}
		}
	}
	return all
}

// A restore that is killed while its stores run is resumed by the same command, one that failed and was kept is undone by another,
// and one whose Cluster is deleted meanwhile fails; nothing is left of the last two.
func TestRealOperator2_KilledAbortedResumedDeleted(t *testing.T) {
	hosts := withNames(t)
	if hosts == "" {
		return
	}
	o := openOperator2(t)
	ctx, cancel := context.WithTimeout(t.Context(), realDeadline)
	defer cancel()
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: t.TempDir(), Kubeconfig: shared.Kubeconfig("admin"), Nodes: 9, Scale: 1, Rules: ebstest.QuickRules(), Operator: 2,
		DNSNames: true, HostsFile: hosts, Logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "· "+format+"\n", args...) },
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	o.start(t, bed)
	_, err = bed.CreateCluster(ctx, cluster.Name{Namespace: "tidb", Name: "prod"}, 3)
	require.NoError(t, err)
	run := o.tisnap(t, bed)
	done := func(args ...string) {
		code, err := run(ctx, append(args, "--storage", round.Storage), nil)
		require.NoError(t, err)
		require.Zero(t, code, args)
	}
	restore := func(to string) []string {
		return []string{"restore", "b", "--to", "tidb/" + to, "--run-id", "run-" + to, "--via", "direct", "--timeout", "5m", "--storage", round.Storage}
	}
	done("backup", "tidb/prod", "--name", "b", "--via", "direct")
	done(append(restore("one"), "--dry-run")...)
	for kind, spec := range map[string]string{"Cluster": "featureGates: [{name: NotOfThisVersion}]", "PDGroup": "notOfThisVersion: 1"} {
		name := map[string]string{"Cluster": "one", "PDGroup": "one-pd"}[kind]
		patch := filepath.Join(t.TempDir(), kind)
		require.NoError(t, os.WriteFile(patch, []byte("kind: "+kind+"\nmetadata: {name: "+name+"}\nspec: {"+spec+"}\n"), 0o600))
		code, err := run(ctx, append(restore("one"), "--dry-run", "--patch", patch), nil)
		require.NoError(t, err)
		require.Equal(t, 5, code, "%s: a precondition does not hold", kind)
	}
	ended := make(chan int, 1)
	begin := func(dying context.Context, to string, more ...string) {
		go func() {
			code, _ := run(dying, append(restore(to), more...), nil)
			ended <- code
		}()
		eventually(t, "stores run", func() bool { return running(bed, to) >= 3 })
	}
	dying, kill := context.WithCancel(ctx)
	begin(dying, "one")
	kill() // -9
	<-ended
	fmt.Fprintln(os.Stderr, "» killed", left(bed, "one"))
	done(restore("one")[:len(restore("one"))-2]...)
	code, err := run(ctx, append(restore("two"), "--keep-on-failure", "--timeout", "5s"), nil)
	require.NoError(t, err)
	fmt.Fprintln(os.Stderr, "» kept", code, left(bed, "two"))
	require.NotZero(t, code)
	done("restore", "abort", "run-two", "--yes", "--delete-rate", "100")
	fmt.Fprintln(os.Stderr, "» aborted", left(bed, "two"))
	eventually(t, "nothing is left", func() bool { return len(left(bed, "two")) == 0 })
	s := newSystem(t, shared.Kubeconfig("admin"))
	clusters := s.dynamic.Resource(schema.GroupVersionResource{Group: "core.pingcap.com", Version: "v1alpha1", Resource: "clusters"}).Namespace("tidb")
	begin(ctx, "three")
	require.NoError(t, clusters.Delete(ctx, "three", metav1.DeleteOptions{}))
	require.NotZero(t, <-ended)
	fmt.Fprintln(os.Stderr, "» left of three:", left(bed, "three"))
	eventually(t, "nothing is left", func() bool { return len(left(bed, "three")) == 0 })
	require.NotEmpty(t, left(bed, "one"), "it serves")
	space, err := kube.NamespaceUID(ctx, s.client, "tidb")
	require.NoError(t, err)
	require.NoError(t, s.client.RemoveCaged(ctx, cluster.Name{Namespace: "tidb", Name: "one"}, "run-one", space))
	require.Empty(t, left(bed, "one"), "as a drill removes its cluster")
}
