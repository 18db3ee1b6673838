package ebstest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// request reads the form of a query-protocol call.
type request struct {
	form url.Values
	late *fault.Strike // of what the call begins, see lateCopy
}

func (r request) text(key string) string { return r.form.Get(key) }

func (r request) has(key string) bool { return r.form.Has(key) }

func (r request) flag(key string) bool { return strings.EqualFold(r.form.Get(key), "true") }

func (r request) number(key string) (int64, error) {
	if !r.has(key) {
		return 0, nil
	}
	n, err := strconv.ParseInt(r.text(key), 10, 64)
	if err != nil {
		return 0, refusal("InvalidParameterValue", "Value (%s) for parameter %s is invalid.", r.text(key), key)
	}
	return n, nil
}

// list reads Key.1, Key.2, …
func (r request) list(key string) []string {
	var out []string
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", key, i)
		if !r.has(name) {
			return out
		}
		out = append(out, r.text(name))
	}
}

// pairs reads Key.1.Key and Key.1.Value, …
func (r request) pairs(key string) (map[string]string, error) {
	out := map[string]string{}
	for i := 1; r.has(fmt.Sprintf("%s.%d.Key", key, i)); i++ {
		name := r.text(fmt.Sprintf("%s.%d.Key", key, i))
		if _, twice := out[name]; twice {
			return nil, refusal("InvalidParameterValue", "Duplicate tag key '%s' specified.", name)
		}
		out[name] = r.text(fmt.Sprintf("%s.%d.Value", key, i))
	}
	return out, nil
}

// tags reads the tag specification of a resource type and holds it against EC2's limits.
func (s *Server) tags(r request, resource string) (map[string]string, error) {
	const key = "TagSpecification.1"
	if !r.has(key + ".ResourceType") {
		return map[string]string{}, nil
	}
	if r.text(key+".ResourceType") != resource {
		return nil, refusal("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", r.text(key+".ResourceType"))
	}
	tags, err := r.pairs(key + ".Tag")
	if err != nil {
		return nil, err
	}
	return tags, s.checkTags(tags)
}

func (s *Server) checkTags(tags map[string]string) error {
	if len(tags) > s.rules.TagsPerResource {
		return refusal("TagLimitExceeded", "The maximum number of tags for a resource is %d.", s.rules.TagsPerResource)
	}
	for key, value := range tags {
		switch {
		case key == "" || len(key) > 127:
			return refusal("InvalidParameterValue", "Tag key exceeds the maximum length of 127 characters.")
		case len(value) > 255:
			return refusal("InvalidParameterValue", "Tag value exceeds the maximum length of 255 characters.")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return refusal("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
	}
	return nil
}

// fingerprint is what must be the same for the same client token.
func (r request) fingerprint() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(r.form)) {
		if key != "ClientToken" && key != "DryRun" {
			fmt.Fprintf(&b, "%q=%q;", key, r.form[key])
		}
	}
	return b.String()
}
