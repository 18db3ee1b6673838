// Package outbound is the HTTP client for what a run sends after its end, to receivers that it does not depend on:
// notifications and metrics. Tries and time are bounded, redirects are not followed, and errors never have the URL:
// those of chat systems and gateways contain secrets.
package outbound
