package estimate

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/report"
)

// GB is the unit of data in the published tables.
const GB = 1_000_000_000

// Input is what the model needs to know about a run.
type Input struct {
	Operation report.Operation `json:"operation"` // Backup or Restore
	Stores    int              `json:"stores"`
	Volumes   int              `json:"volumes"` // of all stores
	DataBytes int64            `json:"dataBytes"`
	// LargestBytes is the data on the fullest volume, which determines the time; zero is an equal share.
	LargestBytes int64 `json:"largestBytes"`
	// ChangedBytes is what changed since the last snapshot of the same volumes; zero is all data, as for the first one.
	ChangedBytes int64 `json:"changedBytes,omitempty"`
	// Spec is that of each volume: the source's for a backup, the target's for a restore.
	Spec cluster.VolumeSpec `json:"spec"`
	// SizesGiB is the sum of the volumes' sizes; zero means Spec's size for each.
	SizesGiB int64 `json:"sizesGiB,omitempty"`
	// Writes means that the cluster was written to during the backup, so that RocksDB has logs to recover.
	Writes bool `json:"writes"`
	// FastRestore and InitializationMiB (MiB/s per volume) are only for a restore.
	FastRestore       bool  `json:"fastRestore,omitempty"`
	InitializationMiB int64 `json:"initializationMiB,omitempty"`
	// MarkedShare is the share of the regions that have a mark, 0 to 1: a restore need not flash back those of them
	// without later writes, whose number is unknown in advance. Zero is none: all regions are flashed back.
	MarkedShare float64 `json:"markedShare,omitempty"`
	// OtherRegion means that the snapshots are copied to another region.
	OtherRegion bool `json:"otherRegion,omitempty"`
}

// Complete fills in what follows from the rest, and refuses impossible input: Usage.
func (in Input) Complete() (Input, error) {
	if in.Volumes == 0 {
		in.Volumes = in.Stores
	}
	if in.Stores < 1 || in.Volumes < in.Stores {
		return in, failure.New(failure.Usage, "estimate", "",
			"%d stores with %d volumes: want at least one store, and a volume for each", in.Stores, in.Volumes)
	}
	if in.DataBytes <= 0 {
		return in, failure.New(failure.Usage, "estimate", "", "the amount of data is unknown").
			WithHint("give it with --data")
	}
	if in.LargestBytes == 0 {
		in.LargestBytes = in.DataBytes / int64(in.Volumes)
	}
	if in.ChangedBytes == 0 || in.ChangedBytes > in.DataBytes {
		in.ChangedBytes = in.DataBytes
	}
	if in.Spec.Type == "" {
		in.Spec.Type = "gp3"
	}
	if in.Spec.Type == "gp3" {
		in.Spec.IOPS, in.Spec.ThroughputMiB = max(in.Spec.IOPS, gp3IOPS), max(in.Spec.ThroughputMiB, gp3MiB)
	}
	if in.Spec.SizeGiB == 0 { // as in the published tables: some three times the data
		in.Spec.SizeGiB = max(3*in.LargestBytes>>30, 1)
	}
	if in.SizesGiB == 0 {
		in.SizesGiB = int64(in.Volumes) * in.Spec.SizeGiB
	}
	return in, nil
}
