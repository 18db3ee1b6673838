package tikv

import (
	"math"
	"testing"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// ours is a message in our words.
func ours(m *recoverdata.RegionMeta) RegionMeta {
	return RegionMeta{
		Region: cluster.RegionID(m.RegionId), PeerID: cluster.PeerID(m.PeerId), LastLogTerm: m.LastLogTerm, LastIndex: m.LastIndex,
		CommitIndex: m.CommitIndex, Version: m.Version, Tombstone: m.Tombstone, Keys: cluster.KeyRange{Start: m.StartKey, End: m.EndKey},
	}
}

// same compares two metas; an empty key may be nil or not.
func same(t *testing.T, want, got RegionMeta) {
	t.Helper()
	require.Equal(t, string(want.Keys.Start), string(got.Keys.Start))
	require.Equal(t, string(want.Keys.End), string(got.Keys.End))
	want.Keys, got.Keys = cluster.KeyRange{}, cluster.KeyRange{}
	require.Equal(t, want, got)
}

func TestDecodeRegionMeta_AllFields(t *testing.T) {
	t.Parallel()
	message := &recoverdata.RegionMeta{
		RegionId: 1, PeerId: math.MaxUint64, LastLogTerm: 3, LastIndex: 4, CommitIndex: 5, Version: 6, Tombstone: true,
		StartKey: []byte("a"), EndKey: []byte("b"),
	}
	data, err := message.Marshal()
	require.NoError(t, err)
	got := RegionMeta{Region: 7, Keys: cluster.KeyRange{Start: []byte("left of the one before")}}
	require.NoError(t, decodeRegionMeta(data, &got))
	same(t, ours(message), got)
	for n := range data {
		var cut RegionMeta
		if err := decodeRegionMeta(data[:n], &cut); err == nil {
			require.Empty(t, cut.Keys.End, "the last field cannot be there")
		}
	}
}

func TestDecodeRegionMeta_Malformed_IsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"cut off in a tag":             {"\x80", errCutOff},
		"cut off in a number":          {"\x08\x80", errCutOff},
		"cut off in a key's length":    {"\x42\x80", errCutOff},
		"cut off in a key":             {"\x42\x05abc", errCutOff},
		"key longer than memory":       {"\x42\xff\xff\xff\xff\xff\xff\xff\xff\x7fabc", errCutOff},
		"number of more than 64 bits":  {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", errVarint},
		"key as a number":              {"\x40\x01", errWireType},
		"number as a key":              {"\x0a\x01a", errWireType},
		"number as 8 bytes":            {"\x0912345678", errWireType},
		"group":                        {"\x7b", errWireType},
		"field 0":                      {"\x00\x00", errWireType},
		"cut off in an unknown field":  {"\x7d123", errCutOff},
		"cut off in 8 unknown bytes":   {"\x791234567", errCutOff},
		"end of a group that is none":  {"\x7c", errWireType},
		"type that does not exist":     {"\x7e", errWireType},
		"length of more than 64 bits":  {"\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", errVarint},
		"tag of more than 32 bits":     {"\x88\x80\x80\x80\x80\x01\x01", errWireType},
		"second field is of no length": {"\x08\x01\x42", errCutOff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, decodeRegionMeta([]byte(c.data), &RegionMeta{}), c.want)
		})
	}
}

// FuzzDecodeRegionMeta compares with the generated code: what we accept, it reads the same way, and what it
// writes we accept.
func FuzzDecodeRegionMeta(f *testing.F) {
	for _, m := range []*recoverdata.RegionMeta{
		{},
		{RegionId: 1, PeerId: 2, LastLogTerm: 3, LastIndex: 4, Version: 6, StartKey: []byte("t\x80"), EndKey: []byte("u")},
		{RegionId: math.MaxUint64, CommitIndex: 1 << 63, Tombstone: true},
	} {
		data, err := m.Marshal()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("\x08\x01\x08\x02\x7d1234\x7912345678\x7a\x01x\x78\x01")) // a field twice, and fields of later versions
	f.Fuzz(func(t *testing.T, data []byte) {
		var got RegionMeta
		var theirs recoverdata.RegionMeta
		err := decodeRegionMeta(data, &got)
		theirErr := theirs.Unmarshal(data)
		if err == nil {
			require.NoError(t, theirErr)
			same(t, ours(&theirs), got)
		}
		if theirErr == nil {
			again, err := theirs.Marshal()
			require.NoError(t, err)
			require.NoError(t, decodeRegionMeta(again, &got))
			same(t, ours(&theirs), got)
		}
	})
}

func BenchmarkDecodeRegionMeta(b *testing.B) {
	data, err := (&recoverdata.RegionMeta{
		RegionId: 123456, PeerId: 456789, LastLogTerm: 6, LastIndex: 12345, Version: 60, StartKey: make([]byte, 27), EndKey: make([]byte, 27),
	}).Marshal()
	require.NoError(b, err)
	var m RegionMeta
	b.ReportAllocs()
	for b.Loop() {
		if decodeRegionMeta(data, &m) != nil {
			b.Fatal("not decoded")
		}
	}
}
