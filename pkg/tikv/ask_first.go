package tikv

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// askFirst lets the run's lock refuse a call before it is sent; see package fenced. It covers reads too: reading the
// region metas ends another client's recovery of the store.
func askFirst() []grpc.DialOption {
	unary := func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		if err := fenced.Check(ctx); err != nil {
			return err
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if err := fenced.Check(ctx); err != nil {
			return nil, err
		}
		return open(ctx, desc, conn, method, options...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}
