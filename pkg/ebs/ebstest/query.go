package ebstest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	filterValues = 200 // that EC2 takes in one filter
	pageLeast    = 5
	pageMost     = 1000
)

// query is a Describe call over one kind of resource.
type query[T any] struct {
	prefix  string
	ids     []string // asked for
	unknown func(id string) error
	all     []T // by id
	id      func(T) string
	visible func(T) bool
	allowed func(T) bool // to be seen by the caller; nil is all. Others are left out, even if they are asked for by id.
	tags    func(T) map[string]string
	// field is the value of a filter's field; ok is false for a filter that EC2 does not know.
	field func(T, string) (value string, ok bool)
}

// run selects and pages. One unknown id fails the whole list. A page is cut before it is filtered, so a page
// may be empty although more follow.
func (q query[T]) run(req request) (found []T, next string, err error) {
	rows := slices.DeleteFunc(slices.Clone(q.all), func(t T) bool { return !q.visible(t) })
	if len(q.ids) > 0 {
		if rows, err = q.pick(rows); err != nil {
			return nil, "", err
		}
	}
	if q.allowed != nil {
		rows = slices.DeleteFunc(rows, func(t T) bool { return !q.allowed(t) })
	}
	if rows, next, err = q.page(rows, req); err != nil {
		return nil, "", err
	}
	for i := 1; req.has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := req.text(fmt.Sprintf("Filter.%d.Name", i))
		values := req.list(fmt.Sprintf("Filter.%d.Value", i))
		if rows, err = q.filter(rows, name, values); err != nil {
			return nil, "", err
		}
	}
	return rows, next, nil
}

func (q query[T]) pick(rows []T) ([]T, error) {
	known, asked := map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		known[q.id(row)] = true
	}
	for _, id := range q.ids {
		if err := wellFormed(q.prefix, id); err != nil {
			return nil, err
		}
		if !known[id] {
			return nil, q.unknown(id)
		}
		asked[id] = true
	}
	return slices.DeleteFunc(rows, func(t T) bool { return !asked[q.id(t)] }), nil
}

// page takes a page; the token is the last id of the page before.
func (q query[T]) page(rows []T, req request) ([]T, string, error) {
	if token := req.text("NextToken"); token != "" {
		last, ok := strings.CutPrefix(token, "after:")
		if !ok {
			return nil, "", refusal("InvalidParameterValue", "Invalid value for 'NextToken'")
		}
		rows = slices.DeleteFunc(rows, func(t T) bool { return q.id(t) <= last })
	}
	if !req.has("MaxResults") {
		return rows, "", nil
	}
	most, err := req.number("MaxResults")
	switch {
	case err != nil:
		return nil, "", err
	case len(q.ids) > 0:
		return nil, "", refusal("InvalidParameterCombination", "The parameter MaxResults cannot be used with a list of ids")
	case most < pageLeast:
		return nil, "", refusal("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than %d.", most, pageLeast-1)
	}
	if most = min(most, pageMost); int64(len(rows)) <= most {
		return rows, "", nil
	}
	return rows[:most], "after:" + q.id(rows[most-1]), nil
}

func (q query[T]) filter(rows []T, name string, values []string) ([]T, error) {
	if len(values) > filterValues {
		return nil, refusal("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", filterValues)
	}
	matches := matcher(values)
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		return slices.DeleteFunc(rows, func(t T) bool {
			value, has := q.tags(t)[key]
			return !has || !matches(value)
		}), nil
	}
	if name == "tag-key" {
		return slices.DeleteFunc(rows, func(t T) bool {
			return !slices.ContainsFunc(slices.Collect(maps.Keys(q.tags(t))), matches)
		}), nil
	}
	if len(rows) == 0 {
		return rows, nil
	}
	if _, ok := q.field(rows[0], name); !ok {
		return nil, refusal("InvalidParameterValue", "The filter '%s' is invalid", name)
	}
	return slices.DeleteFunc(rows, func(t T) bool {
		value, _ := q.field(t, name)
		return !matches(value)
	}), nil
}

// matcher reports whether a text is one of the values, or like one that has wildcards.
func matcher(values []string) func(string) bool {
	plain := map[string]bool{}
	var patterns []*regexp.Regexp
	for _, value := range values {
		if strings.ContainsAny(value, `*?\`) {
			patterns = append(patterns, wildcard(value))
		} else {
			plain[value] = true
		}
	}
	return func(text string) bool {
		return plain[text] || slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
	}
}

// wildcard compiles a filter value: * is any text, ? one character, and a backslash takes that away.
func wildcard(value string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("(?s)^")
	escaped := false
	for _, r := range value {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String()) // quoted throughout, so it compiles
}

// sorted lists a map's values by key.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}
