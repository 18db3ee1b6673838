package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// figure is one number of a benchmark beside what it must reach.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// AtMost or AtLeast is what it must reach; a figure without one is for information.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	Met     bool    `json:"met"`
	How     string  `json:"how,omitempty"` // it was measured
}

// judged fills in whether the figure reaches what it must.
func (f figure) judged() figure {
	f.Met = (f.AtMost == 0 || f.Value <= f.AtMost) && (f.AtLeast == 0 || f.Value >= f.AtLeast)
	return f
}

// String is the figure on one line.
func (f figure) String() string {
	bound := ""
	switch {
	case f.AtMost > 0:
		bound = fmt.Sprintf("at most %.6g", f.AtMost)
	case f.AtLeast > 0:
		bound = fmt.Sprintf("at least %.6g", f.AtLeast)
	}
	if !f.Met {
		bound += " NOT MET"
	}
	return strings.TrimRight(fmt.Sprintf("%-58s %12.6g %-16s %s", f.Name, f.Value, f.Unit, bound), " ")
}

// benchResult is the JSON document.
type benchResult struct {
	Kind    string   `json:"kind"`
	Go      string   `json:"go"`
	CPUs    int      `json:"cpus"`
	Figures []figure `json:"figures"`
	Met     bool     `json:"met"`
}

// benchOptions is the size of the work.
type benchOptions struct {
	regions int
	stores  int
	scale   bool // plan four times the regions too
	only    []string
}

// benchPart measures some figures and hands each over as soon as it has it.
type benchPart struct {
	name string
	run  func(ctx context.Context, o benchOptions, add func(figure)) error
}

// benchParts are the parts of bench-resolve, in order.
func benchParts() []benchPart {
	return []benchPart{
		{"plan", benchPlan},
		{"collect", benchCollect},
		{"flashback", benchFlashback},
	}
}

func benchResolveCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench-resolve",
		Short: "Measure what resolving costs at the size of the largest clusters, as JSON",
		Long: `Measure what resolving costs at the size of the largest clusters. The result goes to stdout as JSON and to
stderr as a table, each figure beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.regions < 1000 || o.stores < 3 {
				return fmt.Errorf("at least 1000 regions on 3 stores are needed to measure anything")
			}
			return benchResolve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.regions, "regions", 1_000_000, "regions of three peers each")
	f.IntVar(&o.stores, "stores", 20, "stores")
	f.BoolVar(&o.scale, "scale", true, "plan four times the regions too, to see how the cost grows")
	f.StringSliceVar(&o.only, "only", nil, "parts to run (default: all)")
	return cmd
}

func benchResolve(ctx context.Context, o benchOptions, stdout, stderr io.Writer) error {
	parts, err := chosen(o.only)
	if err != nil {
		return err
	}
	result := benchResult{Kind: "ResolveBenchmark", Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0), Met: true}
	for _, p := range parts {
		err := p.run(ctx, o, func(f figure) {
			f = f.judged()
			fmt.Fprintln(stderr, f)
			result.Figures = append(result.Figures, f)
			result.Met = result.Met && f.Met
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(result); err != nil {
		return err
	}
	if !result.Met {
		return fmt.Errorf("not all figures are what they must be")
	}
	return nil
}

// chosen is the parts with these names, or all.
func chosen(names []string) ([]benchPart, error) {
	if len(names) == 0 {
		return benchParts(), nil
	}
	var out []benchPart
	var known []string
	for _, p := range benchParts() {
		known = append(known, p.name)
		for _, name := range names {
			if name == p.name {
				out = append(out, p)
			}
		}
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("the parts are %s", strings.Join(known, ", "))
	}
	return out, nil
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for the process itself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
