// Package otlp sends a run's spans to a collector, as OTLP over HTTP, if the environment names one. Spans that the
// collector does not take in time are dropped: a run never waits for them, except for some seconds at its end.
package otlp
