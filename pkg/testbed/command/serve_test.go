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

// Who evaluates the line that serve prints can use the cluster at once.
func TestServe_PrintsItsLineOnceTheClusterIsUsable(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := serve(ctx, write, serveFlags{
			dir: t.TempDir(), cluster: "tidb/prod", stores: 3, nodes: 3, accounts: 20, regions: 4, clients: 1, scale: 100,
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
	tc, err := client.Resource(schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}).
		Namespace("tidb").Get(ctx, "prod", metav1.GetOptions{})
	require.NoError(t, err)
	stores, _, err := unstructured.NestedMap(tc.Object, "status", "tikv", "stores")
	require.NoError(t, err)
	require.Len(t, stores, 3)
	stop()
	for lines.Scan() { // until it ends
	}
	require.NoError(t, <-done)
}
