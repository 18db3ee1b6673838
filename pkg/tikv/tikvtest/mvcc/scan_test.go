package mvcc_test

import (
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// scan prints the pairs as "key=value", locked ones as "key!".
func (c *client) scan(req *kvrpcpb.ScanRequest, bounds mvcc.Range) (pairs []string) {
	for _, p := range mvcc.Scan(c, req, bounds).Pairs {
		if p.Error != nil {
			require.Equal(c.t, p.Key, p.Error.Locked.Key)
			pairs = append(pairs, string(p.Key)+"!")
			continue
		}
		pairs = append(pairs, string(p.Key)+"="+string(p.Value))
	}
	return pairs
}

func TestScan_BoundsLimitAndOrder(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	c := newClient(t)
	for i, k := range strings.Split("abcdef", "") {
		c.write(ts(10, uint64(i)), ts(20, 0), put(k, "1"))
	}
	c.write(ts(21, 0), ts(30, 0), put("b", "2"), del("c"))
	require.Empty(t, c.prewrite(ts(40, 0), put("d", "3"), del("g")))
	key := func(k string) []byte { return []byte(k) }
	enc := func(k string) []byte { return mvcc.EncodeKey(key(k)) }
	all := mvcc.Range{}
	cases := []struct {
		name   string
		req    kvrpcpb.ScanRequest
		bounds mvcc.Range
		want   string
	}{
		{"before all", kvrpcpb.ScanRequest{Version: ts(19, 0), Limit: 9}, all, ""},
		{"old versions", kvrpcpb.ScanRequest{Version: ts(20, 0), Limit: 9}, all, "a=1 b=1 c=1 d=1 e=1 f=1"},
		{"below the lock", kvrpcpb.ScanRequest{Version: ts(39, 0), Limit: 9}, all, "a=1 b=2 d=1 e=1 f=1"},
		{"locked", kvrpcpb.ScanRequest{Version: ts(41, 0), Limit: 9}, all, "a=1 b=2 d! e=1 f=1 g!"},
		{"limit", kvrpcpb.ScanRequest{Version: ts(41, 0), Limit: 3}, all, "a=1 b=2 d!"},
		{"limit zero", kvrpcpb.ScanRequest{Version: ts(41, 0)}, all, ""},
		{"range", kvrpcpb.ScanRequest{StartKey: key("b"), EndKey: key("d"), Version: ts(20, 0), Limit: 9}, all, "b=1 c=1"},
		{"region", kvrpcpb.ScanRequest{StartKey: key("a"), Version: ts(20, 0), Limit: 9},
			mvcc.Range{Start: enc("c"), End: enc("e")}, "c=1 d=1"},
		{"nothing in common", kvrpcpb.ScanRequest{StartKey: key("e"), Version: ts(20, 0), Limit: 9},
			mvcc.Range{Start: enc("a"), End: enc("c")}, ""},
		{"keys only", kvrpcpb.ScanRequest{EndKey: key("c"), Version: ts(20, 0), Limit: 9, KeyOnly: true}, all, "a= b="},
		{"reverse", kvrpcpb.ScanRequest{Version: ts(41, 0), Limit: 9, Reverse: true}, all, "g! f=1 e=1 d! b=2 a=1"},
		{"reverse range", kvrpcpb.ScanRequest{StartKey: key("e"), EndKey: key("b"), Version: ts(30, 0), Limit: 9, Reverse: true},
			all, "d=1 b=2"},
		{"reverse limit", kvrpcpb.ScanRequest{Version: ts(30, 0), Limit: 2, Reverse: true}, all, "f=1 e=1"},
		{"resolved", kvrpcpb.ScanRequest{Version: ts(41, 0), Limit: 9,
			Context: &kvrpcpb.Context{ResolvedLocks: []uint64{ts(40, 0)}}}, all, "a=1 b=2 d=1 e=1 f=1"},
		{"committed", kvrpcpb.ScanRequest{Version: ts(41, 0), Limit: 4,
			Context: &kvrpcpb.Context{CommittedLocks: []uint64{ts(40, 0)}}}, all, "a=1 b=2 d=3 e=1"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) { // one store
			require.Equal(t, tc.want, strings.Join(c.scan(&tc.req, tc.bounds), " "), tc.name)
		})
	}
}
