package testbed_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// With a hosts file each pod has an address of its own with the ports of a real one, under the names that the cluster's DNS has.
func TestHostsFile_NamesLeadToThePods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts")
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: dir, Nodes: 3, Scale: 50, Operator: 2, DNSNames: true, HostsFile: file,
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: "prod"}, 3)
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	of := func(name string) string {
		found := regexp.MustCompile(`(?m)^(127\.[0-9.]+) ` + name + `$`).FindSubmatch(text)
		require.NotNil(t, found, "%s in %s", name, text)
		return string(found[1])
	}
	pd := of(`prod-pd-pd\.tidb`)
	require.Equal(t, pd, of(`prod-pd-pd\.tidb\.svc`))
	require.Equal(t, pd, of(`prod-pd-pd-[a-z0-9]{6}\.prod-pd-pd-peer\.tidb`))
	require.Equal(t, []string{pd + ":2379"}, c.PD.Addrs())
	seen := map[string]bool{}
	for _, store := range c.Stores() {
		require.Regexp(t, `^127\..*:20160$`, store.Addr())
		seen[store.Addr()] = true
	}
	require.Len(t, seen, 3)
	of(`prod-kv0-tikv-[a-z0-9]{6}\.prod-kv0-tikv-peer\.tidb`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+of(`prod-db-tidb-[a-z0-9]{6}\.prod-db-tidb-peer\.tidb`)+":10080/status", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}
