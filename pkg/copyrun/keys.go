package copyrun

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
)

// keys returns which key, by its ARN, the copy of a snapshot will have, "" if it will be unencrypted, and whether that
// is known. Without earlier copies to compare with, neither EC2 nor KMS is asked.
func (r *run) keys(ctx context.Context, s *phase.Scope, compare bool) func(ebs.Snapshot) (arn string, known bool) {
	if r.opts.KMSKey != "" || !compare {
		return func(ebs.Snapshot) (string, bool) { return r.found.key, r.found.key != "" }
	}
	byDefault, err := r.Target.DefaultKey(ctx)
	arn, plain := "", err == nil && !byDefault.Always // copies of unencrypted snapshots are unencrypted
	if !plain || r.anyEncrypted() {
		if err == nil {
			var key ebs.Key
			key, err = r.Target.DescribeKey(ctx, byDefault.Name)
			arn = arnOf(byDefault.Name, key, err)
		}
		if arn == "" {
			s.Note("the default key for EBS of account %s in %s is unknown: %v",
				r.found.account, r.Target.Region(), err)
		}
	}
	return func(source ebs.Snapshot) (string, bool) {
		if plain && !source.Encrypted {
			return "", true
		}
		return arn, arn != ""
	}
}

// arnOf is the ARN of a key by KMS's answer, or by its name if that is one; "" is unknown.
func arnOf(name string, key ebs.Key, err error) string {
	switch {
	case err == nil && key.ARN != "":
		return key.ARN
	case strings.HasPrefix(name, "arn:") && strings.Contains(name, ":key/"):
		return name
	default:
		return ""
	}
}
