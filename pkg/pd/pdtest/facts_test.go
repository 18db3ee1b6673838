package pdtest_test

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

// What a real PD did, so that the stand-in does not drift back. transcript_test.go has its answers word for word,
// traps_test.go what it does unexpectedly.

func TestFacts_RegisteredStore_IsUpOnlyAfterItsFirstHeartbeat(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	_, err := s.PutStore(t.Context(), &pdpb.PutStoreRequest{Store: &metapb.Store{Id: 4, Address: "127.0.0.1:20164", Version: "8.5.0"}})
	require.NoError(t, err)
	_, body := curl(t, s, "GET", api+"/store/4", "")
	require.Contains(t, body, `"state_name": "Down"`)
	_, err = s.StoreHeartbeat(t.Context(), &pdpb.StoreHeartbeatRequest{Stats: &pdpb.StoreStats{StoreId: 4}})
	require.NoError(t, err)
	_, body = curl(t, s, "GET", api+"/store/4", "")
	require.Contains(t, body, `"state_name": "Up"`)
}
