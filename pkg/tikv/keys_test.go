package tikv_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func FuzzDecodeRange(f *testing.F) {
	f.Add([]byte(""), []byte(""))
	f.Add([]byte("t\x80\x00\x00\x00\x00\x00\x00\xff\x01"), []byte("12345678"))
	f.Add(codec.EncodeBytes(nil, []byte("account")), codec.EncodeBytes(nil, []byte("12345678")))
	f.Fuzz(func(t *testing.T, start, end []byte) {
		// What was encoded comes back.
		encoded := cluster.KeyRange{}
		if len(start) > 0 {
			encoded.Start = codec.EncodeBytes(nil, start)
		}
		if len(end) > 0 {
			encoded.End = codec.EncodeBytes(nil, end)
		}
		raw, err := tikv.DecodeRange(encoded)
		require.NoError(t, err)
		require.True(t, bytes.Equal(start, raw.Start) && bytes.Equal(end, raw.End))
		// Anything else is refused, or is the code of what it gives.
		raw, err = tikv.DecodeRange(cluster.KeyRange{Start: start, End: end})
		if err != nil {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		for code, key := range map[string][]byte{string(start): raw.Start, string(end): raw.End} {
			if code != "" {
				require.Equal(t, code, string(codec.EncodeBytes(nil, key)))
			}
		}
	})
}
