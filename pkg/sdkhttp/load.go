package sdkhttp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
	"go.uber.org/zap"
)

// Load resolves the SDK's configuration by its chain: environment, shared files, instance and pod roles. A region or
// profile comes before what the chain has. The SDK's warnings go to log, or nowhere if it is nil; by default the SDK
// writes them to stderr.
func Load(
	ctx context.Context, region, profile string, log *zap.Logger, options ...func(*config.LoadOptions) error,
) (aws.Config, error) {
	options = append(options, config.WithLogger(logger(log)))
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if profile != "" {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	return config.LoadDefaultConfig(ctx, options...)
}

func logger(log *zap.Logger) logging.Logger {
	if log == nil {
		return logging.Nop{}
	}
	return logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
		log.Warn("aws sdk: " + fmt.Sprintf(format, v...))
	})
}

// Transport returns a transport of its own for a configuration: with AWS_CA_BUNDLE's certificates, and so many idle
// connections to one host.
func Transport(cfg aws.Config, perHost int) *http.Transport {
	buildable, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		buildable = awshttp.NewBuildableClient()
	}
	transport := buildable.GetTransport()
	transport.MaxIdleConnsPerHost = perHost
	transport.MaxIdleConns = max(transport.MaxIdleConns, perHost)
	return transport
}
