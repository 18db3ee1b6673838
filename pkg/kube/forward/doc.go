// Package forward connects to ports of pods through the API server of Kubernetes: by SPDY, as kubectl port-forward
// does, or by a WebSocket that carries it where nothing else gets through.
package forward
