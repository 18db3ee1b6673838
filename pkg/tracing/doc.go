// Package tracing marks what a run does as spans of OpenTelemetry: phases, steps and calls to other systems. A span is
// only made below another one that is recorded; without one in the context, which is the rule, nothing is done and
// nothing is allocated. There is no global state: the parent's provider makes its children.
package tracing
