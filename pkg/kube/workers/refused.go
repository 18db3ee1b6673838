package workers

import (
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
	"github.com/tisnap/tisnap/pkg/wait"
)

// refusedWithin is several attempts of the controller, which asks again after 1 s, 2 s, 4 s and so on.
const refusedWithin = 30 * time.Second

// refusals are those of a Job's pods while it is waited for.
type refusals struct {
	before *string   // the newest when the wait began: what was wrong then may have been put right
	since  time.Time // the first one after that; zero without
}

// last notes the newest refusal of a Job without a pod, and reports whether there have been some for so long.
func (r *refusals) last(newest podreason.Refusal, within time.Duration) bool {
	if r.before == nil {
		r.before = &newest.Version
	}
	switch {
	case newest.Version == "":
		r.since = time.Time{}
	case newest.Version != *r.before && r.since.IsZero():
		r.since = time.Now()
	}
	return !r.since.IsZero() && !wait.Younger(r.since, within, time.Now())
}

// refused is the error of a Job of which no pod can be made, for which admission has no codes: its texts are those of
// Kubernetes since 1.25.
func refused(why, op string, job Job) error {
	err := failure.New(failure.Unready, op, job.String(), "no pod of it can be made: %s", why)
	switch {
	case strings.Contains(why, "violates PodSecurity"):
		return err.WithHint("choose another --namespace, or kubectl label --overwrite namespace %s "+
			"pod-security.kubernetes.io/enforce=baseline: at restricted no pod can fill volumes", job.Namespace)
	case strings.Contains(why, "error looking up service account"):
		return err.WithHint("make the service account, or choose another one by --worker-service-account")
	case strings.Contains(why, "exceeded quota"), strings.Contains(why, "failed quota"):
		return err.WithHint("kubectl -n %s describe resourcequota: raise it, or have fewer or smaller pods",
			job.Namespace)
	}
	return err.WithHint("kubectl -n %s describe job %s", job.Namespace, job.Name)
}
