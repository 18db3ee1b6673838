package ebs

import "context"

// Tagger restores tags that were removed from a run's resources: gc finds only tagged ones.
type Tagger interface {
	// PutTags adds the tags to snapshots or volumes, at most 1,000 per call, overwriting values of the same keys; other
	// tags stay. It is idempotent, and waits for a resource that EC2 does not show yet. Kinds: Denied, Limited,
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
