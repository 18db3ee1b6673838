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
		if path == "report.regions" {
			r.put(path+".addsUp", sum(v["unchanged"], v["flashed"]) == sum(v["total"]))
		}
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

// sum adds numbers up as JSON has them.
func sum(values ...any) int64 {
	var out int64
	for _, v := range values {
		if n, ok := v.(json.Number); ok {
			i, _ := n.Int64() // counts
			out += i
		}
	}
	return out
}

// again ends the path that shows whether the last process did a step, for the first time or again.
const again = ".again"

// put adds one value. A step that was done when the run was resumed has an outcome of its own.
func (r result) put(path string, value any) {
	if step, ok := strings.CutSuffix(path, ".outcome"); ok {
		if value == string(phase.Skipped) {
			value = phase.Done
		} else {
			r[step+again] = "yes"
		}
	}
	switch zero := fmt.Sprint(value) == "0"; {
	case counted().MatchString(path) && zero && strings.HasPrefix(path, "manifest."):
		r[path] = "none"
	case counted().MatchString(path):
		r[path] = "counted"
	case !differs(path):
		r[path] = fmt.Sprint(value)
	}
}

// nameStores replaces the ids of stores by the pods they are in, in values and in the names of a list's elements.
func (r result) nameStores(pods map[string]string) {
	of, element := storeIDs(), storeElement()
	for path, id := range maps.Clone(r) {
		if pod, ok := pods[id]; ok && of.MatchString(path) {
			r[path] = pod
		}
		if m := element.FindStringSubmatch(path); m != nil && pods[m[2]] != "" {
			r[m[1]+pods[m[2]]+m[3]] = r[path]
			delete(r, path)
		}
	}
}

// elementOfStore begins the name of an element that is known by the id of its store alone.
const elementOfStore = "store-"

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
		if id, ok := m["store"].(json.Number); ok {
			return elementOfStore + id.String()
		}
	}
	return fmt.Sprint(place)
}

// doneAgain reports whether a path is of a part of a step that was done again: what the process before had done of it when
// it died no longer took any time.
func (r result) doneAgain(path string) bool {
	if m := ofStep().FindStringSubmatch(path); m != nil {
		return r[m[1]+again] != ""
	}
	m := ofStore().FindStringSubmatch(path)
	if m == nil {
		return false
	}
	for p := range r {
		if strings.HasSuffix(p, ".steps."+stepOf()[m[1]]+again) {
			return true
		}
	}
	return false
}

// equal compares with the result of an undisturbed run.
func (r result) equal(undisturbed result) error {
	paths := maps.Clone(r)
	maps.Copy(paths, undisturbed)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		got, is := r[path]
		want, was := undisturbed[path]
		if strings.HasSuffix(path, again) || !is && r.doneAgain(path) {
			continue
		}
		if got != want || is != was {
			lines = append(lines, fmt.Sprintf("%s is %q, and %q in an undisturbed run", path, got, want))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%d differences: %s", len(lines), strings.Join(lines, "; "))
}
