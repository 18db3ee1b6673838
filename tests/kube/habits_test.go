package kube_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// plugin is the shipped program, installed as a plugin of kubectl for a user with a testbed and a backup of each of two
// clusters: night-tidb of tidb/prod and night-dev of dev/prod.
type plugin struct {
	path string
	env  []string
}

// installed takes the backups as its user does. The kubeconfig's own context leads nowhere: "bed" is the testbed's.
func installed(t *testing.T) plugin {
	t.Helper()
	program, err := shipped.Program()
	require.NoError(t, err)
	p := plugin{path: filepath.Join(t.TempDir(), "kubectl-tisnap")}
	require.NoError(t, os.Symlink(program, p.path))
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 20, Rules: ebstest.QuickRules()})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	config, err := clientcmd.LoadFromFile(bed.Kubeconfig())
	require.NoError(t, err)
	config.Contexts["bed"] = config.Contexts[config.CurrentContext]
	config.Clusters["nowhere"] = &api.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["nowhere"] = &api.Context{Cluster: "nowhere"}
	config.CurrentContext = "nowhere"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	home := t.TempDir()
	p.env = append(append(os.Environ(), bed.Env()...), "KUBECONFIG="+kubeconfig, "TISNAP_STORAGE=s3://"+testbed.Bucket+"/habits", "HOME="+home, "XDG_CACHE_HOME="+home)
	for _, namespace := range []string{"tidb", "dev"} {
		_, err := bed.CreateCluster(t.Context(), cluster.Name{Namespace: namespace, Name: "prod"}, 3)
		require.NoError(t, err)
		out := p.done(t, "backup", "prod", "-n", namespace, "--context", "bed", "--name", "night-"+namespace, "--tag", "of="+namespace, "-o", "jsonpath={.backup} {.sealed}")
		require.Equal(t, "night-"+namespace+" true", out)
	}
	return p
}

// runs runs the program to its end.
func (p plugin) runs(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	cmd.Env = p.env
	var out, logged bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &logged
	err := cmd.Run()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	return out.String(), logged.String(), cmd.ProcessState.ExitCode()
}

// done is the output of a command that ends well.
func (p plugin) done(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := p.runs(t, args...)
	require.Zero(t, code, "%v: %s", args, stderr)
	return stdout
}

// TestPlugin_HasKubectlsHabits runs the shipped program as a user of kubectl does.
func TestPlugin_HasKubectlsHabits(t *testing.T) {
	t.Parallel()
	needsPlane(t) // it is not used: but only make test-kube builds the program anyway
	p := installed(t)
	ids := "jsonpath={.items[*].id}"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"of a namespace":            {[]string{"list", "-n", "dev", "-o", "name"}, "backup/night-dev\n"},
		"of all namespaces":         {[]string{"list", "-n", "dev", "-A", "-o", "name"}, "backup/night-tidb\nbackup/night-dev\n"},
		"by a label":                {[]string{"list", "-l", "of=tidb", "-o", ids}, "night-tidb"},
		"by what is not":            {[]string{"list", "-l", "of!=tidb,state in (sealed)", "-o", ids}, "night-dev"},
		"a template":                {[]string{"list", "-n", "dev", "-o", "jsonpath={range .items[*]}{.id} {.state} {.cluster.name}{end}"}, "night-dev sealed prod"},
		"runs of a namespace":       {[]string{"runs", "list", "-n", "dev", "-o", "jsonpath={.items[*].cluster.namespace}"}, "dev"},
		"runs of all namespaces":    {[]string{"runs", "list", "-n", "dev", "-A", "-o", "jsonpath={.items[*].cluster.namespace}"}, "dev tidb"},
		"completion of contexts":    {[]string{"__completeNoDesc", "backup", "--context", ""}, "bed\n"},
		"completion of namespaces":  {[]string{"__completeNoDesc", "list", "--context", "bed", "-n", ""}, "dev\ntidb\n:4\n"},
		"completion of clusters":    {[]string{"__completeNoDesc", "backup", "--context", "bed", "-n", "dev", ""}, "prod\n:4\n"},
		"completion in all of them": {[]string{"__completeNoDesc", "backup", "--context", "bed", "dev/"}, "dev/prod\ntidb/prod\n:4\n"},
		"completion of backups":     {[]string{"__completeNoDesc", "restore", ""}, "night-tidb\nnight-dev\n:4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, p.done(t, c.args...), c.want)
		})
	}
	require.Contains(t, p.done(t, "list", "-A", "-o", "wide"), "of=tidb")
	require.NotContains(t, p.done(t, "list", "-A"), "of=tidb")
	require.NotContains(t, p.done(t, "list", "-n", "dev"), "night-tidb")
	require.Contains(t, p.done(t, "--help"), "kubectl tisnap [command]")
	_, stderr, code := p.runs(t, "list", "-o", "jsonpath={.id")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "unclosed action")
}
