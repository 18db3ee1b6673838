package hold

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Holder is where a hold runs that has no journal, as that of br's `operator pause-gc-and-schedulers`, and when it ends
// at the latest. It goes into the run's id (Holder.Sign), and with it into the names of all that the run holds: PD
// shows it to others.
type Holder struct {
	Host string    `json:"host"`          // in Kubernetes the pod
	Pod  bool      `json:"pod,omitempty"` // Host is the name of a pod
	Ends time.Time `json:"ends,omitzero"` // by its --max-hold
}

const (
	holderSeparator = "@"
	holderPod       = "pod."
	holderHost      = "host."
	holderTime      = "20060102T150405Z"
	// maxHost is how long a name of a pod or host may be.
	maxHost = 253
)

var (
	unsafeHost = regexp.MustCompile(`[^A-Za-z0-9.-]+`)
	// jobPod is the name of a Job's pod: Kubernetes appends five letters of its own alphabet to the Job's.
	jobPod = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// Sign gives a run an id that says who holds. Of the host's name only what may be in a path of PD's API is kept.
func (o Holder) Sign(run cluster.RunID) cluster.RunID {
	host := unsafeHost.ReplaceAllString(o.Host, "-")
	host = host[:min(len(host), maxHost)]
	host = map[bool]string{true: holderPod, false: holderHost}[o.Pod] + host
	return run + cluster.RunID(holderSeparator+host+holderSeparator+o.Ends.UTC().Format(holderTime))
}

// SplitHolder is the run without its holder, and the holder; false of a run that names none.
func SplitHolder(signed cluster.RunID) (cluster.RunID, Holder, bool) {
	parts := strings.Split(string(signed), holderSeparator)
	if len(parts) != 3 {
		return signed, Holder{}, false
	}
	ends, err := time.Parse(holderTime, parts[2])
	if err != nil {
		return signed, Holder{}, false
	}
	o := Holder{Ends: ends}
	if o.Host, o.Pod = strings.CutPrefix(parts[1], holderPod); !o.Pod {
		o.Host = strings.TrimPrefix(parts[1], holderHost)
	}
	return cluster.RunID(parts[0]), o, true
}

// String names the pod, the Job that made it if its name says so, and when the hold ends at the latest.
func (o Holder) String() string {
	where := "host " + o.Host
	if o.Pod {
		where = "pod " + o.Host
		if job := jobPod.FindStringSubmatch(o.Host); job != nil {
			where += fmt.Sprintf(" (Job %s)", job[1])
		}
	}
	return where + ", which ends it by " + o.Ends.UTC().Format(time.RFC3339)
}

// Here is the pod that this process runs in, or the host where that is not known. env is os.Getenv, hostname
// os.Hostname's: in a pod that is the pod's name, but for one on the node's own network.
func Here(env func(string) string, hostname string) Holder {
	if pod := env("POD_NAME"); pod != "" {
		return Holder{Host: pod, Pod: true}
	}
	return Holder{Host: hostname, Pod: env("KUBERNETES_SERVICE_HOST") != "" && jobPod.MatchString(hostname)}
}
