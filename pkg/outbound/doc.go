// Package outbound is the HTTP client for what a run sends after its end, to receivers that it does not depend on: a
// notification, metrics. Tries and time are bounded, redirects are not followed, and no error repeats a URL: those of
// chat systems and gateways have a secret in them.
package outbound
