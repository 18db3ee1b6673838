package hold

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Holder is where a hold without a journal runs, such as br's `operator pause-gc-and-schedulers`, and when it ends at
// the latest. It is part of the run's id (Holder.Sign), and so of the names of everything that the run holds, which PD
// shows to others.
type Holder struct {
	Host string    `json:"host"`          // the pod, in Kubernetes
	Pod  bool      `json:"pod,omitempty"` // Host is the name of a pod
	Ends time.Time `json:"ends,omitzero"` // by its --max-hold
}

const (
	holderSeparator = "@"
	holderPod       = "pod."
	holderHost      = "host."
	holderTime      = "20060102T150405Z"
	// maxHost is the maximum length of a pod's or host's name.
	maxHost = 253
)

var (
	unsafeHost = regexp.MustCompile(`[^A-Za-z0-9.-]+`)
	// jobPod matches a Job's pod: Kubernetes appends five letters of its own alphabet to the Job's name.
	jobPod = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// Sign adds the holder to a run's id, keeping only characters of the host's name that are valid in a PD API path.
func (o Holder) Sign(run cluster.RunID) cluster.RunID {
	host := unsafeHost.ReplaceAllString(o.Host, "-")
	host = host[:min(len(host), maxHost)]
	host = map[bool]string{true: holderPod, false: holderHost}[o.Pod] + host
	return run + cluster.RunID(holderSeparator+host+holderSeparator+o.Ends.UTC().Format(holderTime))
}

// SplitHolder returns the run without its holder, and the holder; false if the id names none.
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

// String names the pod, its Job if the pod's name reveals one, and when the hold ends at the latest.
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

// Here returns the pod that this process runs in, or else the host. env is os.Getenv, hostname os.Hostname's: the pod's
// name, except for a pod on the node's network.
func Here(env func(string) string, hostname string) Holder {
	if pod := env("POD_NAME"); pod != "" {
		return Holder{Host: pod, Pod: true}
	}
	return Holder{Host: hostname, Pod: env("KUBERNETES_SERVICE_HOST") != "" && jobPod.MatchString(hostname)}
}
