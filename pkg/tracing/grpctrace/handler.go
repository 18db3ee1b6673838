package grpctrace

import (
	"context"
	"strings"

	"google.golang.org/grpc/stats"

	"github.com/tisnap/tisnap/pkg/tracing"
)

// Handler is a stats.Handler of a client. Its spans are children of what the call's context is part of; calls without
// such a context, as those of background work, are not recorded.
type Handler struct{}

var _ stats.Handler = Handler{}

type key struct{}

// TagRPC begins the call's span.
func (Handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if !tracing.On(ctx) {
		return ctx
	}
	ctx, span := tracing.Call(ctx, strings.TrimPrefix(info.FullMethodName, "/"), "rpc.system", "grpc")
	return context.WithValue(ctx, key{}, span)
}

// HandleRPC ends the span with the call.
func (Handler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ended := s.(*stats.End)
	if span, ok := ctx.Value(key{}).(tracing.Span); ok && ended {
		span.End(end.Error)
	}
}

// TagConn does nothing.
func (Handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (Handler) HandleConn(context.Context, stats.ConnStats) {}
