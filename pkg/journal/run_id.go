package journal

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// NewRunID makes an id that is unique, sorts by time and fits into Kubernetes names and tags.
func NewRunID(now time.Time) (cluster.RunID, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", failure.Wrap(err, failure.Unknown, "make run id", "")
	}
	return FirstRunID(now) + cluster.RunID("-"+hex.EncodeToString(b[:])), nil
}

// FirstRunID sorts before every id that NewRunID makes at the time or later, and behind those of the seconds before.
func FirstRunID(at time.Time) cluster.RunID {
	return cluster.RunID(strings.ToLower(at.UTC().Format("20060102t150405")))
}
