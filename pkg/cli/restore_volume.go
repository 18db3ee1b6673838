package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// volumeFlags describe the new volumes, where they go, and how they are initialized.
type volumeFlags struct {
	volumeType, zone, kmsKey, account string
	iops, throughput, size            int64
	azMap, keepTags                   []string
	initialization                    int64
	fsr                               bool
	afterType                         string
	afterIOPS, afterThroughput        int64
}

func (f *volumeFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	choose(cmd, fl, &f.volumeType, "volume-type", optional(volumes.Types()...),
		"type of the new volumes (default: the source's)")
	fl.Int64Var(&f.iops, "volume-iops", 0, "IOPS of each new volume (default: the source's, or the type's)")
	fl.Int64Var(&f.throughput, "volume-throughput", 0,
		"MiB/s of each new gp3 volume (default: the source's, or the type's)")
	fl.Int64Var(&f.size, "volume-size", 0, "GiB of each new volume, not less than the source's (default: the source's)")
	fl.StringVar(&f.zone, "target-az", "",
		"availability zone for all new volumes, by name or id (default: each volume's own)")
	fl.StringSliceVar(&f.azMap, "az-map", nil,
		"map of the backup's zones to the target's, by name or id: 2a=2b,2c=2d")
	fl.StringVar(&f.kmsKey, "kms-key", "",
		"KMS key to encrypt the new volumes with: id, alias or ARN (default: each snapshot's)")
	fl.StringVar(&f.account, "account", "",
		"12-digit AWS account that the restore must run in (default: the credentials' account)")
	fl.Int64Var(&f.initialization, "initialization-rate", 0,
		"MiB/s at which EC2 initializes each volume, 100 to 300, billed by AWS (default: on read)")
	fl.BoolVar(&f.fsr, "fsr", false,
		"enable fast snapshot restore while the volumes are created, billed by AWS; takes an hour or more per TiB")
	choose(cmd, fl, &f.afterType, "after-restore-type", optional(volumes.Types()...),
		"type of the volumes once the cluster serves (default: as restored)")
	fl.Int64Var(&f.afterIOPS, "after-restore-iops", 0,
		"IOPS of each volume once the cluster serves (default: as restored)")
	fl.Int64Var(&f.afterThroughput, "after-restore-throughput", 0,
		"MiB/s of each gp3 volume once the cluster serves (default: as restored)")
	fl.StringSliceVar(&f.keepTags, "keep-tags", nil,
		"snapshot tag keys to copy to the volumes; no others are copied")
}

// ofEBS reports whether the user gave an option that only EC2 can follow, be it by the environment.
func (f *volumeFlags) ofEBS(cmd *cobra.Command) bool {
	own := &cobra.Command{}
	(&volumeFlags{}).add(own)
	given := false
	own.Flags().VisitAll(func(flag *pflag.Flag) {
		given = given || flag.Name != "target-az" && flag.Name != "az-map" && cmd.Flag(flag.Name).Changed
	})
	return given
}

func (f *volumeFlags) validate() error {
	for _, row := range []struct {
		flag  string
		value int64
	}{
		{"volume-iops", f.iops}, {"volume-throughput", f.throughput}, {"volume-size", f.size},
		{"after-restore-iops", f.afterIOPS}, {"after-restore-throughput", f.afterThroughput},
	} {
		if row.value < 0 {
			return fmt.Errorf("--%s %d: must not be negative", row.flag, row.value)
		}
	}
	if f.initialization != 0 &&
		(f.initialization < ebs.MinInitializationRate || f.initialization > ebs.MaxInitializationRate) {
		return fmt.Errorf("--initialization-rate %d: want %d to %d", f.initialization, ebs.MinInitializationRate,
			ebs.MaxInitializationRate)
	}
	if f.account != "" && !regexp.MustCompile(`^[0-9]{12}$`).MatchString(f.account) {
		return fmt.Errorf("--account %q: want 12 digits", f.account)
	}
	switch {
	case f.fsr && f.initialization != 0:
		return fmt.Errorf(
			"--fsr and --initialization-rate are mutually exclusive: EC2 uses the rate and ignores fast " +
				"snapshot restore")
	case f.zone != "" && len(f.azMap) > 0:
		return fmt.Errorf("--target-az and --az-map are mutually exclusive")
	}
	if err := ebs.CheckKeepTags(f.keepTags); err != nil {
		return err
	}
	_, err := volumes.ParseZonePairs(f.azMap)
	return err
}

// into copies the validated flags into the options.
func (f *volumeFlags) into(o *restore.Options) error {
	pairs, err := volumes.ParseZonePairs(f.azMap)
	if err != nil {
		return err
	}
	o.Volume = cluster.VolumeSpec{Type: f.volumeType, IOPS: f.iops, ThroughputMiB: f.throughput, SizeGiB: f.size}
	o.After = cluster.VolumeSpec{Type: f.afterType, IOPS: f.afterIOPS, ThroughputMiB: f.afterThroughput}
	o.Zone, o.Zones = cluster.Zone(f.zone), pairs
	o.KeepTags = f.keepTags
	o.KMSKey, o.Account = f.kmsKey, f.account
	o.InitializationMiB, o.FastRestore = f.initialization, f.fsr
	return nil
}
