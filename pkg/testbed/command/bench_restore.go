package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/scale"
)

func benchRestoreCommand() *cobra.Command {
	cfg := scale.RestoreConfig{Limits: scale.RestoreLimits()}
	var tisnap string
	cmd := &cobra.Command{
		Use:   "bench-restore",
		Short: "Measure restores of a model of the published case, 21 TB on 20 TiKVs",
		Long: `Measure restores of a model of the published case, 21 TB on 20 TiKVs in 18m16s: the shipped program against PD,
EC2, Kubernetes and stores that take the published times, of a backup with marks after which all, 10 % and 1 % of the
regions were written to. The model's time passes faster than the clock, so that what this machine needs for its own work
counts as so much longer. The result is JSON on stdout; what is missed makes the command fail.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program := func(bed *testbed.Testbed) scale.Program {
				return scale.Program(binary(tisnap, io.Discard, cmd.ErrOrStderr())(bed))
			}
			restores, err := scale.MeasureRestores(cmd.Context(), program, cfg)
			for _, r := range restores {
				fmt.Fprintln(cmd.ErrOrStderr(), r)
				if !r.Met {
					err = errors.Join(err, fmt.Errorf("not met: %s", r))
				}
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return errors.Join(err, enc.Encode(struct {
				Kind     string           `json:"kind"`
				Go       string           `json:"go"`
				CPUs     int              `json:"cpus"`
				Restores []*scale.Restore `json:"restores"`
			}{"BenchRestore", runtime.Version(), runtime.GOMAXPROCS(0), restores}))
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Regions, "regions", scale.PublishedRegions, "regions of three peers each, on 20 stores")
	f.Float64Var(&cfg.Speed, "speed", 2, "how many seconds of the model pass in one")
	f.Int64Var(&cfg.Seed, "seed", 1, "seed of EC2's latencies")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	return cmd
}
