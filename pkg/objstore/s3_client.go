package objstore

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/sdkhttp"
)

const (
	defaultAttemptTimeout = 20 * time.Second
	// Six attempts wait three seconds in all; then the caller's step decides whether to continue. The SDK's own
	// backoff starts with up to a second, which is long for the renewal of a lock.
	attempts     = 6
	firstBackoff = 100 * time.Millisecond
)

func newS3(ctx context.Context, bucket, prefix string, c Config) (Store, error) {
	timeout := c.AttemptTimeout
	if timeout <= 0 {
		timeout = defaultAttemptTimeout
	}
	loaded, err := sdkhttp.Load(ctx, c.Region, c.Profile, c.Log, config.WithRetryer(newRetryer),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = timeout // a silent connection fails, and the SDK retries
		})))
	if err != nil {
		return nil, (&failure.Error{Op: "open storage", Target: "s3://" + bucket, Kind: failure.Usage, Err: err}).
			WithHint("correct AWS_PROFILE, --profile or the files in ~/.aws")
	}
	transport, watch := &http.Transport{}, &stopwatch{}
	if buildable, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok { // with AWS_CA_BUNDLE's certificates
		transport = buildable.GetTransport()
		watch.next = sdkhttp.Wrap(transport)
		loaded.HTTPClient = &http.Client{Transport: watch, CheckRedirect: sameMethodOnly}
	}
	if c.RoleARN != "" {
		loaded.Credentials = sdkhttp.AssumeRole(loaded, c.RoleEndpoint, c.RoleARN, c.ExternalID)
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		if o.BaseEndpoint != nil { // also from AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 and shared files
			o.UsePathStyle = !c.VirtualHosted // a single host has no names for its buckets
			if o.Region == "" {
				o.Region = "us-east-1"
			}
		}
		// Objects written by others without a checksum are fine.
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	if client.Options().Region == "" {
		return nil, failure.New(failure.Usage, "open storage", "s3://"+bucket, "no AWS region is set").
			WithHint("set --region or AWS_REGION")
	}
	if prefix != "" {
		prefix += "/"
	}
	return &s3Store{client: client, bucket: bucket, prefix: prefix, put: c.Put, transport: transport, watch: watch}, nil
}

// sameMethodOnly follows the redirects that keep the method and the body, as the SDK's own client does.
func sameMethodOnly(req *http.Request, _ []*http.Request) error {
	switch req.Response.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return nil
	}
	return http.ErrUseLastResponse
}

// newRetryer is the SDK's standard one, but also retries a conditional write that met another in flight, as S3 demands.
func newRetryer() aws.Retryer {
	return retry.AddWithErrorCodes(retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			wait := firstBackoff << min(attempt, attempts)
			return wait/2 + rand.N(wait/2), nil
		})
	}), "ConditionalRequestConflict", "OperationAborted")
}
