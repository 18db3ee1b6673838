package ebs

import (
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxKept bounds an allow-list, so that the kept tags and tisnap's own stay below EC2's limit of 50.
const maxKept = 30

// CheckKeepTags checks an allow-list of tag keys that are taken over from a volume to its snapshots, or from a
// snapshot to its volumes. Nothing else is ever taken over, so that tags do not pile up from one backup and
// restore to the next. Errors are Usage.
func CheckKeepTags(keys []string) error {
	refuse := func(format string, args ...any) error {
		return failure.New(failure.Usage, "check tags to keep", "", format, args...)
	}
	if len(keys) > maxKept {
		return refuse("%d tag keys are given, at most %d are possible", len(keys), maxKept)
	}
	for _, key := range keys {
		switch {
		case key == "" || len(key) > 128:
			return refuse("a tag key has 1 to 128 characters, not %d", len(key))
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return refuse("%q belongs to AWS and cannot be set", key)
		case strings.HasPrefix(key, "tisnap.io/"):
			return refuse("%q is one of tisnap's own tags, which every run sets itself", key)
		}
	}
	return nil
}

// KeepTags adds to own those tags of the sources that the allow-list names, and returns the sum. tisnap's own
// tags win. A key whose value differs between the sources is left out, and returned: all snapshots of one
// CreateSnapshots call get the same tags.
func KeepTags(own Tags, allowed []string, sources ...Tags) (sum Tags, differing []string) {
	sum = maps.Clone(own)
	if sum == nil {
		sum = Tags{}
	}
	for _, key := range allowed {
		if _, taken := own[key]; taken {
			continue
		}
		var values []string
		for _, source := range sources {
			if value, ok := source[key]; ok && !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		switch len(values) {
		case 0:
		case 1:
			sum[key] = values[0]
		default:
			differing = append(differing, key)
		}
	}
	return sum, differing
}
