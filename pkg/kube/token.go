package kube

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// rereadToken makes a token file be reread as soon as the API server refuses the token. client-go alone would keep
// sending the old one for up to a minute, longer than a refusal is retried.
func rereadToken(config *rest.Config) {
	if config.BearerTokenFile == "" {
		return
	}
	config.Wrap(
		transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(config.BearerTokenFile)))
	config.BearerToken, config.BearerTokenFile = "", ""
}
