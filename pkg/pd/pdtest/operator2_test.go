package pdtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

// What TiDB Operator 2.x asks of PD besides lists: labels of stores, and the scheduler that evicts the leaders of a store whose
// pod is deleted, which is named with the store and goes with the last one.
func TestHTTP_OperatorsCalls_LabelStoresAndEvictLeaders(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Name: "pd-x7k2p9"})
	_, body := curl(t, s, "GET", api+"/members", "")
	require.Contains(t, body, `"pd-x7k2p9"`)

	status, _ := curl(t, s, "POST", api+"/store/1/label", `{"zone":"a","host":"h9"}`)
	require.Equal(t, 200, status)
	status, _ = curl(t, s, "POST", api+"/store/1/label", `{"zone":"b"}`)
	require.Equal(t, 200, status)
	_, body = curl(t, s, "GET", api+"/store/1", "")
	require.Regexp(t, `"key": "host",\s+"value": "h9"`, body, "others stay")
	require.Regexp(t, `"key": "zone",\s+"value": "b"`, body)
	status, _ = curl(t, s, "POST", api+"/store/99/label", `{"zone":"a"}`)
	require.Equal(t, 404, status)

	const evict = "evict-leader-scheduler"
	add := func(store string) {
		status, _ := curl(t, s, "POST", api+"/schedulers", `{"name":"`+evict+`","store_id":`+store+`}`)
		require.Equal(t, 200, status)
	}
	add("1")
	add("2")
	add("2")
	_, body = curl(t, s, "GET", api+"/scheduler-config/"+evict+"/list", "")
	require.JSONEq(t, `{"store-id-ranges":{"1":[{"start-key":"","end-key":""}],"2":[{"start-key":"","end-key":""}]}}`, body)
	remove := func(store string) int {
		status, _ := curl(t, s, "DELETE", api+"/schedulers/"+evict+"-"+store, "")
		return status
	}
	listed := func() bool {
		_, body := curl(t, s, "GET", api+"/schedulers", "")
		return strings.Contains(body, evict)
	}
	require.Equal(t, []int{200, 404}, []int{remove("2"), remove("2")})
	require.True(t, listed(), "of the other store")
	require.Equal(t, []int{200, 404}, []int{remove("1"), remove("1")})
	require.False(t, listed())
	status, _ = curl(t, s, "DELETE", api+"/schedulers/none-scheduler", "")
	require.Equal(t, 404, status)
}
