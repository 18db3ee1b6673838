package brcompat

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// restoreFlags are specific to `restore full`.
type restoreFlags struct {
	Type             string
	Prepare          bool
	OutputFile       string
	TargetAZ         string
	UseFSR           bool
	ProgressFile     string
	VolumeType       string
	VolumeIOPS       int64
	VolumeThroughput int64
	VolumeEncrypted  bool
	VolumeScope      int
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "full",
		Short: "Create volumes from a backup's snapshots (--prepare), or resolve the data of started stores",
		Args:  a.noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantType(f.Type); err != nil {
				return err
			}
			if err := required("storage", a.common.Storage); err != nil {
				return err
			}
			if err := f.validate(); err != nil {
				return err
			}
			a.bound(RestoreGrace)
			if f.Prepare {
				return a.restoreVolumes(cmd.Context(), f)
			}
			return a.restoreData(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Type, "type", "kv", "full backup type: "+typeEBS)
	fl.BoolVar(&f.Prepare, "prepare", false, "only create the volumes")
	fl.StringVar(&f.OutputFile, "output-file", "output.json", "file for the document with the new volumes")
	fl.StringVar(&f.TargetAZ, "target-az", "", "zone of the new volumes; empty for each volume's own")
	fl.BoolVar(&f.UseFSR, "use-fsr", false, "create the volumes with fast snapshot restore")
	fl.StringVar(&f.ProgressFile, "progress-file", "progress.txt", "file for the progress")
	fl.StringVar(&f.VolumeType, "volume-type", "gp3", "type of the new volumes: gp3, io1, io2")
	fl.Int64Var(&f.VolumeIOPS, "volume-iops", 0, "IOPS of the new volumes; 0 is the type's default")
	fl.Int64Var(&f.VolumeThroughput, "volume-throughput", 0,
		"throughput of the new volumes, in MiB/s; 0 is the type's default")
	fl.BoolVar(&f.VolumeEncrypted, "volume-encrypted", false, "encrypt the new volumes")
	fl.IntVar(&f.VolumeScope, "volume-scope", 0, "which volumes: 0 all, 1 those with TiKV's data, 2 the others")
	defineOthers(fl, restoreOthers())
	return cmd
}

// validate refuses impossible requests before anything is contacted.
func (f *restoreFlags) validate() error {
	if f.VolumeScope < int(volumes.ScopeAll) || f.VolumeScope > int(volumes.ScopeOther) {
		return failure.New(failure.Usage, "read --volume-scope", strconv.Itoa(f.VolumeScope),
			"want 0 (all volumes), 1 (those with TiKV's data) or 2 (the others)")
	}
	if !slices.Contains(volumes.Types(), f.VolumeType) {
		return failure.New(failure.Usage, "read --volume-type", f.VolumeType, "want one of %s",
			strings.Join(volumes.Types(), ", "))
	}
	if f.VolumeIOPS < 0 || f.VolumeThroughput < 0 {
		return failure.New(failure.Usage, "read --volume-iops and --volume-throughput", "", "must not be negative")
	}
	return nil
}

// EC2's defaults for a gp3 volume: to br 0 means these, even if the source had more.
const (
	gp3IOPS       = 3000
	gp3Throughput = 125
)

// volume returns the settings of the new volumes.
func (f *restoreFlags) volume() cluster.VolumeSpec {
	spec := cluster.VolumeSpec{Type: f.VolumeType, IOPS: f.VolumeIOPS, ThroughputMiB: f.VolumeThroughput}
	if spec.Type == "gp3" {
		spec.IOPS, spec.ThroughputMiB = cmp.Or(spec.IOPS, gp3IOPS), cmp.Or(spec.ThroughputMiB, gp3Throughput)
	}
	return spec
}
