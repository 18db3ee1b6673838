// Package tracing records a run as OpenTelemetry spans: phases, steps and calls to other systems. A span is only
// created below a recorded one; without one in the context, which is the normal case, nothing is done or allocated.
// There is no global state: the parent's provider creates its children.
package tracing
