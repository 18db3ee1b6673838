package ebsdirect

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/ebs"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/sdkhttp"
)

// Config selects the account and region. Empty fields are resolved by the SDK's chain, as in package ebs.
type Config struct {
	Region   string // as ebs.Client has it
	Endpoint string // custom URL
	Profile  string // of the shared configuration files
	// RoleARN is a role to assume, with ExternalID if its trust policy requires one; empty is none.
	RoleARN, ExternalID string
	// Limits are those of the account; the zero value is AWS's defaults.
	Limits Limits
	// AnswerTimeout is how long one try waits for its answer; 0 is 30 s.
	AnswerTimeout time.Duration
	Log           *zap.Logger // of the SDK's warnings; nil drops them
	Clock         ebs.Clock   // nil is real time
}

// Client talks to the EBS direct APIs. It is a Source and a Target, and safe for concurrent use: have up to MaxInFlight
// calls at a time, the governor sends as many as help. Close it when it is no longer used.
type Client struct {
	api       *sdk.Client
	transport *http.Transport
	clock     ebs.Clock
	timeout   time.Duration
	governor  *governor
	page      int32 // blocks in a page of a list
}

var (
	_ Source = (*Client)(nil)
	_ Target = (*Client)(nil)
)

// Open resolves region and credentials and returns a client. It contacts AWS only as far as the SDK requires.
func Open(ctx context.Context, c Config) (*Client, error) {
	cfg, err := sdkhttp.Load(ctx, c.Region, c.Profile, c.Log,
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} })) // only call.go retries
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "load aws configuration", "")
	}
	if cfg.Region == "" {
		return nil, failure.New(failure.Usage, "find aws region", "", "no region configured").
			WithHint("set --region or AWS_REGION")
	}
	if c.RoleARN != "" {
		cfg.Credentials = sdkhttp.AssumeRole(cfg, c.Endpoint, c.RoleARN, c.ExternalID)
	}
	if c.Endpoint != "" {
		cfg.BaseEndpoint = aws.String(c.Endpoint)
	}
	return newClient(cfg, c), nil
}

func newClient(cfg aws.Config, c Config) *Client {
	transport := sdkhttp.Transport(cfg, MaxInFlight) // else most calls would need a TLS handshake
	cfg.HTTPClient = &http.Client{Transport: sdkhttp.Wrap(transport)}
	if c.Clock == nil {
		c.Clock = ebs.RealTime()
	}
	return &Client{
		api: sdk.NewFromConfig(cfg), transport: transport, clock: c.Clock,
		timeout: cmp.Or(c.AnswerTimeout, 30*time.Second), governor: newGovernor(c.Clock, c.Limits), page: maxPage,
	}
}

// Close closes idle connections. It does not end calls in flight.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Stats are the calls that were answered or refused so far, repeated ones included.
func (c *Client) Stats() Stats { return c.governor.stats() }
