package mutants

// WithoutRows are the packages that no row breaks, and why: what tests and the testbed are made of is left out as a whole.
func WithoutRows() map[string]string {
	return map[string]string{
		"pkg/tracing/grpctrace": "it begins and ends a span for a call; whether one is recorded is decided in pkg/tracing",
		"pkg/tracing/otlp":      "it hands spans to OpenTelemetry's own exporter; what is in them is decided in pkg/tracing",
	}
}
