package restore

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// pollInterval is how often other systems are polled; tests, whose systems are faster, poll more often.
var pollInterval = 500 * time.Millisecond // a variable for tests

// explainInterval is how often a wait for the target's pods asks Kubernetes what blocks them.
const explainInterval = 3 * time.Second

// poll is phase.Poll for something that the target's pods must do. Every few seconds it reports why they do not run, if
// that has changed. It fails if the cluster was deleted.
func (t *target) poll(ctx context.Context, s *phase.Scope, op string, done func(context.Context) (bool, error)) error {
	target := t.opts.Target.String()
	reported, asked := "", time.Now()
	return phase.Poll(ctx, pollInterval, op, target, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if ok || err != nil && !failure.NotYet(err) {
			return ok, err
		}
		if t.kube != nil && time.Since(asked) >= explainInterval {
			asked = time.Now()
			reasons, waitErr := t.kube.Waiting(ctx, t.opts.Target)
			if failure.Is(waitErr, failure.NotFound) {
				return false, failure.New(failure.Conflict, op, target, "the cluster was deleted").
					WithHint("see who deleted it, and restore again")
			}
			if text := strings.Join(reasons, "; "); waitErr == nil && text != reported {
				if reported = text; reported != "" {
					s.Note("waiting: %s", reported)
				}
			}
		}
		if reported != "" {
			err = failure.New(failure.Unready, op, target, "%s", strings.TrimPrefix(errorText(err)+"; "+reported, "; "))
		}
		return false, err
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
