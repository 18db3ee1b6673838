package command

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// The line that serve prints, evaluated by a shell, makes the cluster usable at once.
func TestServe_PrintsItsLineOnceTheClusterIsUsable(t *testing.T) {
	t.Parallel()
	for generation, stores := range map[operator]func(*testing.T, dynamic.Interface) int{1: storesOfTidbCluster, 2: storesOfCluster} {
		t.Run("operator "+generation.String(), func(t *testing.T) {
			t.Parallel()
			serveUntilUsable(t, generation, stores)
		})
	}
}

func storesOfTidbCluster(t *testing.T, client dynamic.Interface) int {
	t.Helper()
	tc, err := client.Resource(schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}).
		Namespace("tidb").Get(t.Context(), "prod", metav1.GetOptions{})
	require.NoError(t, err)
	stores, _, err := unstructured.NestedMap(tc.Object, "status", "tikv", "stores")
	require.NoError(t, err)
	return len(stores)
}

func storesOfCluster(t *testing.T, client dynamic.Interface) int {
	t.Helper()
	list, err := client.Resource(schema.GroupVersionResource{Group: "core.pingcap.com", Version: "v1alpha1", Resource: "tikvs"}).
		Namespace("tidb").List(t.Context(), metav1.ListOptions{LabelSelector: "pingcap.com/cluster=prod"})
	require.NoError(t, err)
	return len(list.Items)
}

func serveUntilUsable(t *testing.T, generation operator, stores func(*testing.T, dynamic.Interface) int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := serve(ctx, write, serveFlags{
			dir: t.TempDir(), cluster: "tidb/prod", stores: 3, nodes: 3, accounts: 20, regions: 4, clients: 1, scale: 100, operator: generation,
		})
		_ = write.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(read)
	require.True(t, lines.Scan())
	require.Equal(t, "# cluster tidb/prod is starting", lines.Text())
	require.True(t, lines.Scan())
	path := regexp.MustCompile(`^export .*KUBECONFIG=(\S+).* TISNAP_STORAGE=s3://`).FindStringSubmatch(lines.Text())
	require.Len(t, path, 2, lines.Text())
	config, err := clientcmd.BuildConfigFromFlags("", path[1])
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	require.Equal(t, 3, stores(t, client))
	stop()
	for lines.Scan() { // until it ends
	}
	require.NoError(t, <-done)
}
