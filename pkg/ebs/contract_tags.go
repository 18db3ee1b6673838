package ebs

import "context"

// Tagger puts back tags that something took off what a run made: gc finds only what carries them.
type Tagger interface {
	// PutTags adds the tags to snapshots or volumes, at most 1,000 in one call, over older values of their keys; all
	// others stay. It may be called again. One that EC2 does not show yet is waited for. Kinds: Denied, Limited,
	// NotFound, Usage, Unknown.
	PutTags(ctx context.Context, resources []string, tags Tags) error
}

// Missing returns those of the tags that got does not have with the same value.
func (t Tags) Missing(got Tags) Tags {
	out := Tags{}
	for key, value := range t {
		if has, ok := got[key]; !ok || has != value {
			out[key] = value
		}
	}
	return out
}
