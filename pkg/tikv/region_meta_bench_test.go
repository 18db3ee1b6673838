package tikv_test

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tisnap/tisnap/pkg/tikv"
)

// encoded takes messages that are encoded already: the benchmark is about the reader.
type encoded struct{}

func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	data, ok := v.([]byte)
	if !ok {
		return nil, errors.New("not encoded")
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}
func (encoded) Unmarshal(mem.BufferSlice, any) error { return nil }
func (encoded) Name() string                         { return "" }

// BenchmarkRegionMetas reads 100,000 metas from one store over gRPC; both sides are in its time.
func BenchmarkRegionMetas(b *testing.B) {
	const n = 100_000
	messages := make([][]byte, n)
	for i := range messages {
		data, err := (&recoverdata.RegionMeta{
			RegionId: uint64(i + 1), PeerId: 4_000_000, LastLogTerm: 6, LastIndex: 10_000, Version: 60,
			StartKey: binary.BigEndian.AppendUint64(make([]byte, 19), uint64(i)), EndKey: binary.BigEndian.AppendUint64(make([]byte, 19), uint64(i+1)),
		}).Marshal()
		require.NoError(b, err)
		messages[i] = data
	}
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := grpc.NewServer(grpc.ForceServerCodecV2(encoded{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(nil); err != nil {
			return err
		}
		for _, m := range messages {
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	}))
	go func() { _ = server.Serve(listener) }() // until Stop
	b.Cleanup(server.Stop)
	client := tikv.Open(tikv.Config{})
	b.Cleanup(client.Close)
	b.ReportAllocs()
	for b.Loop() {
		count := 0
		require.NoError(b, client.RegionMetas(b.Context(), listener.Addr().String(), func(tikv.RegionMeta) error {
			count++
			return nil
		}))
		require.Equal(b, n, count)
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "metas/s")
}
