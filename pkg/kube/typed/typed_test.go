package typed_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// Requests to all groups share one limit. The next one would be allowed in ten days, and is refused at once.
func TestNew_AllGroups_ShareOneLimit(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"tikv-0"}}]}`)
	}))
	defer server.Close()
	c, err := typed.New(&rest.Config{Host: server.URL, QPS: 1e-6, Burst: 1}, server.Client())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	pods, err := c.Pods("tidb").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "tikv-0", pods.Items[0].Name)
	_, err = c.StatefulSets("tidb").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "rate limiter")
}
