// Package forward connects to ports of pods through the Kubernetes API server: over SPDY, like kubectl port-forward, or
// over SPDY tunnelled in a WebSocket where a proxy blocks SPDY.
package forward
