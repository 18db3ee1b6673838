package report

import (
	"fmt"
	"strings"
	"time"
)

// Forward is how PD and the stores were reached through port forwards of the Kubernetes API server. The hold waits for
// each of its round trips, so a distant API server lengthens it.
type Forward struct {
	// Pods were reached by Connections: more than Pods if some broke and were reopened.
	Pods        int `json:"pods"`
	Connections int `json:"connections"`
	// InHold is how many of them were opened while the cluster was held: 0 unless one broke.
	InHold int `json:"inHold"`
	// MaxOpenSeconds is how long the slowest took to open.
	MaxOpenSeconds float64 `json:"maxOpenSeconds"`
	// RoundTripSeconds is the median round trip to a pod's node, MaxRoundTripSeconds the longest; 0 if none was
	// measured.
	RoundTripSeconds    float64 `json:"roundTripSeconds"`
	MaxRoundTripSeconds float64 `json:"maxRoundTripSeconds"`
}

// Text is one line for a reader.
func (f *Forward) Text() string {
	parts := []string{
		fmt.Sprintf("%d pods by %d connections, the slowest opened in %s", f.Pods, f.Connections,
			milliseconds(f.MaxOpenSeconds)),
	}
	if f.InHold > 0 {
		parts = append(parts, fmt.Sprintf("%d opened during the hold", f.InHold))
	}
	if f.MaxRoundTripSeconds > 0 {
		parts = append(parts,
			fmt.Sprintf("a round trip %s, the longest %s", milliseconds(f.RoundTripSeconds),
				milliseconds(f.MaxRoundTripSeconds)))
	}
	return "through port forwards: " + strings.Join(parts, "; ")
}

func milliseconds(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond).String()
}
