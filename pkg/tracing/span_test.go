package tracing_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"google.golang.org/grpc/stats"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tracing"
	"github.com/tisnap/tisnap/pkg/tracing/grpctrace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without a collector nothing is in the way of a run: no span, no allocation, the same context.
func TestStart_NothingRecorded_CostsNothing(t *testing.T) { // it counts the process's allocations
	ctx := t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		inner, span := tracing.Call(ctx, "ec2:CreateSnapshots", "rpc.system", "aws-api")
		span.End(nil)
		if inner != ctx {
			t.Error("the context changed")
		}
	})
	assert.Zero(t, allocations)
	assert.False(t, tracing.On(ctx))
	assert.Equal(t, ctx, grpctrace.Handler{}.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: "/a/b"}))
	grpctrace.Handler{}.HandleRPC(ctx, &stats.End{})
}

func TestStart_ChildrenErrorsAndCalls(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, root := provider.Tracer("test").Start(t.Context(), "root")
	inner, step := tracing.Start(ctx, "cut", "tisnap.run", "r1")
	call := grpctrace.Handler{}.TagRPC(inner, &stats.RPCTagInfo{FullMethodName: "/pdpb.PD/Tso"})
	grpctrace.Handler{}.HandleRPC(call, &stats.Begin{})
	grpctrace.Handler{}.HandleRPC(call, &stats.End{Error: errors.New("unavailable")})
	step.End(failure.New(failure.Denied, "cut", "", "no\x1b[31m\nway"))
	root.End()
	spans := recorder.Ended()
	if assert.Len(t, spans, 3) {
		assert.Equal(t, "pdpb.PD/Tso", spans[0].Name())
		assert.Equal(t, spans[1].SpanContext().SpanID(), spans[0].Parent().SpanID())
		assert.Equal(t, codes.Error, spans[0].Status().Code)
		assert.Equal(t, "cut: no[31m way", spans[1].Status().Description)
		assert.Equal(t, spans[2].SpanContext().SpanID(), spans[1].Parent().SpanID())
	}
}
