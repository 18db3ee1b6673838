package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/scale"
)

func benchMarksCommand() *cobra.Command {
	var regions, rounds int
	var seed int64
	var tisnap string
	cmd := &cobra.Command{
		Use:   "bench-marks",
		Short: "Measure the marks of a store with 50,000 regions, and the hold with and without them",
		Long: `Measure the marks of a store with 50,000 regions, each of which it answers in 3 ms; the hold of backups with
marks and without, in turn; and the sizes of the marks of a million regions. The result is JSON on stdout; what is
missed makes the command fail.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			program := func(bed *testbed.Testbed) scale.Program {
				return scale.Program(binary(tisnap, io.Discard, cmd.ErrOrStderr())(bed))
			}
			m, err := scale.MeasureMarks(cmd.Context(), program, regions, rounds, seed)
			if m == nil {
				return err
			}
			if len(m.Exceeded) > 0 {
				err = errors.Join(err, fmt.Errorf("limits that are not kept: %s", strings.Join(m.Exceeded, "; ")))
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return errors.Join(err, enc.Encode(struct {
				Kind string `json:"kind"`
				*scale.Marks
			}{"BenchMarks", m}))
		},
	}
	f := cmd.Flags()
	f.IntVar(&regions, "regions", 50_000, "regions that the store leads")
	f.IntVar(&rounds, "rounds", 3, "backups of each kind")
	f.Int64Var(&seed, "seed", 1, "seed of EC2's latencies")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	return cmd
}
