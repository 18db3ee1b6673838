package runmark

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Key is both an annotation, with the run id, and a label, with its slug, on every object that a run makes.
const Key = "tisnap.io/run"

// maxLabel is Kubernetes' limit for a label's value.
const maxLabel = 63

// Slug makes text valid as a label's value and as part of an object's name.
func Slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '-'
		}
		b.WriteRune(r)
	}
	s := strings.Trim(b.String(), "-")
	if len(s) > maxLabel {
		s = strings.TrimRight(s[:maxLabel], "-")
	}
	return s
}

// Put marks an object with the run.
func Put(m metav1.Object, run cluster.RunID) {
	a, l := maps.Clone(m.GetAnnotations()), maps.Clone(m.GetLabels())
	if a == nil {
		a = map[string]string{}
	}
	if l == nil {
		l = map[string]string{}
	}
	a[Key], l[Key] = string(run), Slug(string(run))
	m.SetAnnotations(a)
	m.SetLabels(l)
}

// MadeBy reports whether the run made the object: by the annotation, which has the whole id.
func MadeBy(m metav1.Object, run cluster.RunID) bool {
	return run != "" && m.GetAnnotations()[Key] == string(run)
}

// CheckMade returns nil for an object of the run, Conflict for anyone else's, and Limited for one being deleted.
func CheckMade(m metav1.Object, run cluster.RunID, op, target string) error {
	if !MadeBy(m, run) {
		by := m.GetAnnotations()[Key]
		if by == "" {
			by = "someone else"
		} else {
			by = "run " + by
		}
		return failure.New(failure.Conflict, op, target, "it already exists and was made by %s", by).
			WithHint("choose another target name, or delete %s first", target)
	}
	if m.GetDeletionTimestamp() != nil {
		return failure.New(failure.Limited, op, target, "it is still being deleted").
			WithHint("run it again when the object is gone")
	}
	return nil
}

// Selector selects by label what a run made. Slugs may collide: check with MadeBy.
func Selector(run cluster.RunID) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: Key + "=" + Slug(string(run))}
}
