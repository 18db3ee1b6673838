package tests

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

const waitsForPD = "waiting: pod copy-pd-0: "

// waitedPD is a kubelet under which the copy's PD does not start before the restore has reported what it waits for, or half a
// minute has passed.
type waitedPD struct {
	kubetest.Runtime
	output *shipped.Output
}

func (r waitedPD) StartPD(ctx context.Context, name cluster.Name, replicas int) ([]string, error) {
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for name.Name == "copy" && !strings.Contains(r.output.String(), waitsForPD) {
		if wait.For(waiting, 20*time.Millisecond) != nil {
			break
		}
	}
	return r.Runtime.StartPD(ctx, name, replicas)
}

// TestRestore_TargetFitsTheBackup restores a source with a store more than its replicas, as after a failover, and with a
// node port: the target has all stores, the size that was asked for, and the node port only if it is to. While its PD does
// not come, the restore reports why.
func TestRestore_TargetFitsTheBackup(t *testing.T) {
	t.Parallel()
	var output shipped.Output
	p := newPlace(t, testbed.Config{Nodes: 8, Runtime: func(r kubetest.Runtime) kubetest.Runtime { return waitedPD{r, &output} }})
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	setFailedStore(t, p)
	require.Eventually(t, func() bool {
		return p.run(t, "backup", prod.String(), "--storage", whole, "--dry-run").code == cli.ExitDone && len(c.Stores()) == 4
	}, time.Minute, 200*time.Millisecond, "the Operator replaces the failed store")
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	const dropped = "settings of the source's services are not in the copy"
	restore := []string{"restore", string(firstBackup), "--to", "tidb/copy", "--storage", whole, "--volume-size", "110"}
	kept := p.refused(t, append(restore, "--keep-service-settings", "--print-manifest")...)
	require.Equal(t, cli.ExitDone, kept.code, kept.stderr)
	require.Contains(t, kept.stdout, "mysqlNodePort: 30400")
	require.Contains(t, kept.stdout, "replicas: 4")
	require.NotContains(t, kept.stderr, dropped)

	var stdout bytes.Buffer
	code := tisnap(t.Context(), p.bed, &stdout, &output, append(restore, "--timeout", "2m")...)
	require.Equal(t, cli.ExitDone, code, output.String())
	require.Contains(t, output.String(), waitsForPD)
	require.Contains(t, output.String(), dropped+" (--keep-service-settings keeps them): spec.tidb.service.mysqlNodePort (30400)")
	copied := p.bed.Kube.Get("tidbclusters", "tidb", "copy").Object
	replicas, _, _ := unstructured.NestedInt64(copied, "spec", "tikv", "replicas")
	require.EqualValues(t, 4, replicas)
	size, _, _ := unstructured.NestedString(copied, "spec", "tikv", "requests", "storage")
	require.Equal(t, "110Gi", size, "or the Operator would resize the volumes")
	service, _, _ := unstructured.NestedMap(copied, "spec", "tidb", "service")
	require.Equal(t, map[string]any{"type": "NodePort"}, service)
	made := 0
	for _, v := range p.bed.EC2.Volumes() {
		if v.Tags[ebs.TagRun] != "" {
			made++
			require.EqualValues(t, 110, v.Spec.SizeGiB)
		}
	}
	require.Equal(t, 8, made)
}

// setFailedStore has the Operator believe that a store of prod has failed, and gives its TiDB a node port.
func setFailedStore(t *testing.T, p *place) {
	t.Helper()
	tc := p.bed.Kube.Get("tidbclusters", "tidb", "prod")
	require.NoError(t, unstructured.SetNestedMap(tc.Object, map[string]any{"1": map[string]any{"podName": "prod-tikv-0", "storeID": "1"}}, "status", "tikv", "failureStores"))
	service, _, err := unstructured.NestedMap(tc.Object, "spec", "tidb", "service")
	require.NoError(t, err)
	maps.Copy(service, map[string]any{"type": "NodePort", "mysqlNodePort": int64(30400)})
	require.NoError(t, unstructured.SetNestedMap(tc.Object, service, "spec", "tidb", "service"))
	require.NoError(t, p.bed.Kube.Put(tc))
}
