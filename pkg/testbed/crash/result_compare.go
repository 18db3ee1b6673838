package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/phase"
)

// decode keeps numbers as they are written: a timestamp has more digits than a float64.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	return value, err
}

// add adds the values below a path. Elements of a list that have a name are compared by it, as some lists are in the
// order in which stores came up.
func (r result) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			r.add(path+"."+key, inner)
		}
	case []any:
		r.put(path+".length", len(v))
		for i, inner := range v {
			r.add(path+"."+nameOf(inner, i), inner)
		}
	default:
		r.put(path, v)
	}
}

// put adds one value. A step that was done when the run was resumed has an outcome of its own.
func (r result) put(path string, value any) {
	if strings.HasSuffix(path, ".outcome") && value == string(phase.Skipped) {
		value = phase.Done
	}
	if !differs(path) {
		r[path] = fmt.Sprint(value)
	}
}

// nameStores replaces the ids of stores by the pods they are in.
func (r result) nameStores(pods map[string]string) {
	of := storeIDs()
	for path, id := range r {
		if pod, ok := pods[id]; ok && of.MatchString(path) {
			r[path] = pod
		}
	}
}

// nameOf is what an element of a list is known by, or its place.
func nameOf(element any, place int) string {
	if m, ok := element.(map[string]any); ok {
		if meta, ok := m["metadata"].(map[string]any); ok {
			m = meta
		}
		for _, key := range []string{"pod", "name", "volume", "ID"} {
			if name, ok := m[key].(string); ok {
				return name
			}
		}
	}
	return fmt.Sprint(place)
}

// equal compares with the result of an undisturbed run.
func (r result) equal(undisturbed result) error {
	paths := maps.Clone(r)
	maps.Copy(paths, undisturbed)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		got, is := r[path]
		want, was := undisturbed[path]
		if got != want || is != was {
			lines = append(lines, fmt.Sprintf("%s is %q, and %q in an undisturbed run", path, got, want))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%d differences: %s", len(lines), strings.Join(lines, "; "))
}
