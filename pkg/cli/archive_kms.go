package cli

import (
	"cmp"
	"context"
	"regexp"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// slotKMS asks KMS about the slots of a repository, in each key's own region. It connects once it is asked.
type slotKMS struct {
	app     *app
	profile string
}

var _ format.KMS = slotKMS{}

func (a *app) slotKMS(f *repoFlags) slotKMS {
	return slotKMS{app: a, profile: cmp.Or(f.profile, a.global.profile)}
}

// keyARN matches the ARN of a KMS key. An alias may get another key, and names none in another account.
func keyARN() *regexp.Regexp {
	return regexp.MustCompile(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+$`)
}

func (k slotKMS) open(ctx context.Context, key string) (*ebs.Client, error) {
	parts := keyARN().FindStringSubmatch(key)
	if parts == nil {
		return nil, failure.New(failure.Usage, "use --kms-key", key, "it is no ARN of a KMS key").
			WithHint("give arn:aws:kms:REGION:ACCOUNT:key/ID, not an alias")
	}
	return ebs.Open(ctx, ebs.Config{Region: parts[1], Profile: k.profile, Endpoint: k.app.global.endpoint})
}

// EncryptByKey is as in ebs.Encryption.
func (k slotKMS) EncryptByKey(
	ctx context.Context, key string, plain []byte, about map[string]string,
) ([]byte, error) {
	client, err := k.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.EncryptByKey(ctx, key, plain, about)
}

// DecryptByKey is as in ebs.Encryption.
func (k slotKMS) DecryptByKey(
	ctx context.Context, key string, sealed []byte, about map[string]string,
) ([]byte, error) {
	client, err := k.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.DecryptByKey(ctx, key, sealed, about)
}
