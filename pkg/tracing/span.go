package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Name is the instrumentation name in all spans.
const Name = "github.com/tisnap/tisnap"

// Span is one operation of a run. The zero value records nothing.
type Span struct {
	span trace.Span
}

// On reports whether operations under ctx are recorded.
func On(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Begin starts a span below ctx's. Its attributes are pairs of key and value.
func Begin(ctx context.Context, kind trace.SpanKind, name string, attributes ...string) Span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return Span{}
	}
	var pairs []attribute.KeyValue
	for i := 0; i+1 < len(attributes); i += 2 {
		pairs = append(pairs, attribute.String(attributes[i], attributes[i+1]))
	}
	_, span := parent.TracerProvider().Tracer(Name).
		Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(pairs...))
	return Span{span: span}
}

// In returns ctx with the span in it, for the span's children.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// End ends the span. An error marks it as failed; its text is cut to one line.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, failure.Line(err.Error()))
		s.span.SetAttributes(attribute.String("error.type", failure.KindOf(err).String()))
	}
	s.span.End()
}

// Start is Begin and In for an operation inside the program.
func Start(ctx context.Context, name string, attributes ...string) (context.Context, Span) {
	s := Begin(ctx, trace.SpanKindInternal, name, attributes...)
	return s.In(ctx), s
}

// Call is Begin and In for a call to another system.
func Call(ctx context.Context, name string, attributes ...string) (context.Context, Span) {
	s := Begin(ctx, trace.SpanKindClient, name, attributes...)
	return s.In(ctx), s
}
