package ebs

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/sdkhttp"
)

// Config selects the account and region. Empty fields are resolved by the SDK's chain (AWS_REGION, AWS_PROFILE,
// AWS_ENDPOINT_URL, shared files, web identity, instance metadata).
type Config struct {
	Region   string
	Endpoint string // custom URL for EC2, STS, Service Quotas and KMS
	Profile  string // of the shared configuration files
	// RoleARN is a role to assume, with ExternalID if its trust policy requires one; empty is none.
	RoleARN, ExternalID string

	// AnswerTimeout is how long one try waits for its answer; 0 is 30 s, and 60 s for Cut.
	AnswerTimeout time.Duration
	// Log receives the SDK's warnings; nil drops them. By default the SDK writes to stderr.
	Log *zap.Logger
	// Clock drives pacing and waits between attempts; nil is real time.
	Clock Clock
}

// Client talks to EC2, STS, Service Quotas and KMS. It implements all interfaces of the contract and is safe for
// concurrent use. Close it when it is no longer used.
type Client struct {
	ec2       *ec2.Client
	sts       *sts.Client
	quotas    *servicequotas.Client
	kms       *kms.Client
	transport *http.Transport
	region    string
	clock     Clock
	timeout   time.Duration
	pace      pacing
	recent    *recentIDs
}

var (
	_ Snapshots   = (*Client)(nil)
	_ Volumes     = (*Client)(nil)
	_ Account     = (*Client)(nil)
	_ Performance = (*Client)(nil)
	_ Inventory   = (*Client)(nil)
	_ Tagger      = (*Client)(nil)
	_ Keys        = (*Client)(nil)
	_ Encryption  = (*Client)(nil)
	_ Copies      = (*Client)(nil)
	_ Sharing     = (*Client)(nil)
	_ Locker      = (*Client)(nil)
)

// regionTimeout bounds the query of the instance metadata service, which does not answer outside EC2.
const regionTimeout = 2 * time.Second

// absent is the cause of an error of Open where nothing names a region, or credentials of any kind.
type absent struct{ error }

func (a absent) Unwrap() error { return a.error }

// IsAbsent reports whether Open has failed because no region or no credentials are configured at all. Those that are
// configured and cannot be used, such as expired ones or those of a misspelled profile, are not absent.
func IsAbsent(err error) bool {
	var is absent
	return errors.As(err, &is)
}

// Open resolves region and credentials and returns a client. It contacts AWS only as far as resolving credentials
// requires. A missing region is a Usage error, missing credentials are Denied.
func Open(ctx context.Context, c Config) (*Client, error) {
	cfg, err := sdkhttp.Load(ctx, c.Region, c.Profile, c.Log,
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} })) // only call.go retries
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "load aws configuration", "")
	}
	if cfg.Region == "" {
		if cfg.Region, err = instanceRegion(ctx, cfg); err != nil {
			return nil, failure.New(failure.Usage, "find aws region", "", "no region configured: %w", absent{err}).
				WithHint("set --region or AWS_REGION")
		}
	}
	// A cut sends requests for all instances at once: with the default of 2 idle connections, each would need a new TLS
	// handshake inside the hold.
	transport := sdkhttp.Transport(cfg, 128)
	transport.MaxIdleConns = 256
	cfg.HTTPClient = &http.Client{Transport: sdkhttp.Wrap(transport)}
	if c.RoleARN != "" {
		cfg.Credentials = sdkhttp.AssumeRole(cfg, c.Endpoint, c.RoleARN, c.ExternalID)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		if c.RoleARN != "" {
			return nil, failure.New(failure.Denied, "assume role", c.RoleARN, "%w", err).
				WithHint("let the role's trust policy name this identity, and the external id that is sent, and give " +
					"the identity sts:AssumeRole on the role; with EKS Pod Identity both need sts:TagSession, too")
		}
		if aws.IsCredentialsProvider(cfg.Credentials, (*ec2rolecreds.Provider)(nil)) { // the last of the chain
			err = absent{err}
		}
		return nil, failure.New(failure.Denied, "find aws credentials", "", "%w", err).
			WithHint("give the pod or user an IAM role, or set AWS_PROFILE")
	}
	if c.Endpoint != "" {
		cfg.BaseEndpoint = aws.String(c.Endpoint)
	}
	return newClient(cfg, transport, c), nil
}

func newClient(cfg aws.Config, transport *http.Transport, c Config) *Client {
	if c.Clock == nil {
		c.Clock = realClock{}
	}
	return &Client{
		ec2:       ec2.NewFromConfig(cfg),
		sts:       sts.NewFromConfig(cfg),
		quotas:    servicequotas.NewFromConfig(cfg),
		kms:       kms.NewFromConfig(cfg),
		transport: transport,
		region:    cfg.Region,
		clock:     c.Clock,
		timeout:   c.AnswerTimeout,
		pace:      newPacing(c.Clock),
		recent:    newRecentIDs(c.Clock),
	}
}

// instanceRegion asks the instance that this process runs on.
func instanceRegion(ctx context.Context, cfg aws.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, regionTimeout)
	defer cancel()
	out, err := imds.NewFromConfig(cfg).GetRegion(ctx, nil)
	if err != nil {
		return "", err
	}
	return out.Region, nil
}

// Close closes idle connections. It does not end calls in flight.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Region returns the region of all calls, as resolved by Open.
func (c *Client) Region() string { return c.region }

// AccountID asks STS whose credentials these are: the 12-digit account number.
// Kinds: Denied, Limited, Unknown.
func (c *Client) AccountID(ctx context.Context) (string, error) {
	var id string
	op := operation{verb: "get caller identity", action: "sts:GetCallerIdentity", repeatable: true}
	err := c.call(ctx, op, "", func(ctx context.Context) error {
		out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil {
			return err
		}
		id = aws.ToString(out.Account)
		return nil
	})
	return id, err
}

func (c *Client) answerTimeout(op operation) time.Duration {
	return cmp.Or(c.timeout, op.timeout, 30*time.Second)
}
