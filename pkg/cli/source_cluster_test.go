package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// awayServer opens Kubernetes whose API server is away until start is called, and then has no such cluster.
func awayServer(t *testing.T) (k *kube.Client, start func()) {
	t.Helper()
	address, release, err := kubetest.ReservePort()
	require.NoError(t, err)
	t.Cleanup(release)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"http://%s"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, address), 0o600))
	k, err = kube.Open(kube.Config{Kubeconfig: path})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k, func() {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("the API server does not come back: %v", err)
			return
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(notFound))
		_ = server.Listener.Close()
		server.Listener = l
		server.Start()
		t.Cleanup(server.Close)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,`+
		`"message":"tidbclusters \"prod\" not found","details":{"name":"prod","group":"pingcap.com","kind":"tidbclusters"}}`)
}

func TestSourceCluster_ServerIsAway_IsTriedAgainUntilItAnswers(t *testing.T) {
	t.Parallel()
	k, start := awayServer(t)
	var said []string
	c := &connections{say: func(text string) {
		if said = append(said, text); len(said) == 2 {
			start()
		}
	}}
	_, err := c.sourceCluster(t.Context(), k, cluster.Name{Namespace: "tidb", Name: "prod"})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.Len(t, said, 2)
	require.Regexp(t, `^trying again: read tidbcluster of tidb/prod: .*connection refused`, said[0])
}

func TestSourceCluster_IsInterrupted_EndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	k, _ := awayServer(t)
	said := 0
	c := &connections{say: func(string) { said++; cancel() }}
	_, err := c.sourceCluster(ctx, k, cluster.Name{Namespace: "tidb", Name: "prod"})
	require.ErrorContains(t, err, "connection refused")
	require.Equal(t, 1, said)
}
