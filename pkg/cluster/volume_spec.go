package cluster

import (
	"fmt"
	"strings"
)

// VolumeSpec is the performance and size of an EBS volume. Zero IOPS or ThroughputMiB is the type's own default.
type VolumeSpec struct {
	Type          string `json:"type"`
	SizeGiB       int64  `json:"sizeGiB"`
	IOPS          int64  `json:"iops,omitempty"`
	ThroughputMiB int64  `json:"throughputMiB,omitempty"` // MiB/s; gp3 only
}

// Text is "gp3 100 GiB, 3000 iops, 125 MiB/s", without the type's defaults. It is not called String because types that
// embed a spec would then print only that.
func (s VolumeSpec) Text() string {
	parts := []string{fmt.Sprintf("%s %d GiB", s.Type, s.SizeGiB)}
	if s.IOPS != 0 {
		parts = append(parts, fmt.Sprintf("%d iops", s.IOPS))
	}
	if s.ThroughputMiB != 0 {
		parts = append(parts, fmt.Sprintf("%d MiB/s", s.ThroughputMiB))
	}
	return strings.Join(parts, ", ")
}
