package otlp

import (
	"context"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// flushTimeout is how long the end of a run waits for the collector.
const flushTimeout = 5 * time.Second

// Enabled reports whether the environment names a collector, by OpenTelemetry's own variables.
func Enabled() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start begins the trace of a run: what is done under the context returned is part of it. end ends it and sends what is
// left, for five seconds at most. All other variables of OpenTelemetry's OTLP exporter count: headers, certificates,
// timeouts, sampler, OTEL_RESOURCE_ATTRIBUTES. What cannot be sent is logged, without the collector's answer.
func Start(
	ctx context.Context, name, version string, log *zap.Logger,
) (inner context.Context, end func(error), err error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return ctx, nil, failure.Wrap(err, failure.Usage, "start tracing", "")
	}
	attributes, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", serviceName()),
			attribute.String("service.version", version)))
	if err != nil {
		return ctx, nil, failure.Wrap(err, failure.Usage, "start tracing", "")
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("spans were not sent", zap.Error(err)) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(attributes))
	inner, span := provider.Tracer(tracing.Name).Start(ctx, name)
	return inner, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, failure.Line(err.Error()))
			span.SetAttributes(attribute.String("error.type", failure.KindOf(err).String()))
		}
		span.End()
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(short); err != nil {
			log.Warn("the trace could not be sent in full")
		}
	}, nil
}

func serviceName() string {
	if name := os.Getenv("OTEL_SERVICE_NAME"); name != "" {
		return name
	}
	return "tisnap"
}
