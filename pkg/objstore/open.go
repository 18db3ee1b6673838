package objstore

import (
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Config is how to connect to S3. Empty fields follow the AWS SDK's chain: environment, shared files, instance and pod
// roles. Credentials come only from that chain.
type Config struct {
	Region   string
	Profile  string
	Endpoint string // of an S3 other than AWS's, like AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL
	// RoleARN is a role to assume for S3, with ExternalID if its trust policy requires one; empty is none.
	RoleARN, ExternalID string
	// RoleEndpoint is STS's custom URL; empty is AWS's. Endpoint may be of an S3 that is not AWS's.
	RoleEndpoint string
	// VirtualHosted puts the bucket's name into the host name of Endpoint, as some stores require.
	VirtualHosted bool
	// Put is how objects are written to S3; a folder ignores it.
	Put PutOptions
	// AttemptTimeout bounds the wait for the start of a response; 0 is 20 s. A call makes up to six attempts.
	AttemptTimeout time.Duration
	// Log gets the SDK's warnings, which would otherwise go to stderr; nil drops them.
	Log *zap.Logger
}

// PutOptions are S3's settings for written objects. Empty fields are the bucket's defaults.
type PutOptions struct {
	StorageClass string // "STANDARD_IA", …
	ACL          string // a canned ACL
	Encryption   string // "AES256" or "aws:kms"
	KMSKey       string // for "aws:kms"; empty is the account's default key
}

// hintURL is the hint for an invalid storage URL.
const hintURL = "write it as s3://BUCKET[/PREFIX] or file:///ABSOLUTE/FOLDER"

// Open returns the store at a URL, "s3://bucket/prefix" or "file:///folder", without contacting it. Any other URL is
// Usage, and so is one with credentials, which the error does not repeat.
func Open(ctx context.Context, rawURL string, config Config) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error would repeat the URL, which may have a secret.
		return nil, failure.New(failure.Usage, "open storage", "", "the URL cannot be parsed").WithHint(hintURL)
	}
	if u.User != nil {
		return nil, refuse("credentials are not accepted").
			WithHint("remove the credentials; use AWS_PROFILE, the environment or a role")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, refuse("a query or fragment is not accepted").
			WithHint("use --region and --endpoint-url, and the environment or a role for credentials")
	}
	switch u.Scheme {
	case "s3":
		return openS3URL(ctx, u, config)
	case "file":
		return openFileURL(u)
	case "":
		return nil, refuse("the scheme is missing")
	default:
		return nil, refuse("the scheme %q is unknown", u.Scheme)
	}
}

func openS3URL(ctx context.Context, u *url.URL, config Config) (Store, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{2,62}$`).MatchString(u.Host) {
		return nil, refuse("%q is not a bucket's name", u.Host)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		if err := CheckKey(prefix); err != nil {
			return nil, refuse("%q is not a prefix", prefix)
		}
	}
	return newS3(ctx, u.Host, prefix, config)
}

func openFileURL(u *url.URL) (Store, error) {
	if (u.Host != "" && u.Host != "localhost") || !filepath.IsAbs(u.Path) {
		return nil, refuse("the folder must be absolute, with three slashes")
	}
	return newFile(filepath.Clean(u.Path)), nil
}

func refuse(format string, args ...any) *failure.Error {
	return failure.New(failure.Usage, "open storage", "", "in the URL "+format, args...).WithHint(hintURL)
}
