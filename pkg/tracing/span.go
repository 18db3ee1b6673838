package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Name is the instrumentation's, in every span.
const Name = "github.com/tisnap/tisnap"

// Span is one thing that a run does. The zero value records nothing.
type Span struct {
	span trace.Span
}

// On reports whether what is done under ctx is recorded.
func On(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Begin makes a span below that of ctx. Its attributes are pairs of a key and a value.
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

// In is ctx with the span in it: what is done under it are the span's children.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// End ends the span. An error marks it as failed; its text is one line, cut.
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

// Start is Begin of something inside the program, and In.
func Start(ctx context.Context, name string, attributes ...string) (context.Context, Span) {
	s := Begin(ctx, trace.SpanKindInternal, name, attributes...)
	return s.In(ctx), s
}

// Call is Begin of a call to another system, and In.
func Call(ctx context.Context, name string, attributes ...string) (context.Context, Span) {
	s := Begin(ctx, trace.SpanKindClient, name, attributes...)
	return s.In(ctx), s
}
