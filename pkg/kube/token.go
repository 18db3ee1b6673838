package kube

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// rereadToken has a token that a file holds read again as soon as the API server refuses it. client-go by itself sends
// what it has read for a minute more, which is longer than a refusal is waited for.
func rereadToken(config *rest.Config) {
	if config.BearerTokenFile == "" {
		return
	}
	config.Wrap(
		transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(config.BearerTokenFile)))
	config.BearerToken, config.BearerTokenFile = "", ""
}
