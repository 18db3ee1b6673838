package cli

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/restore"
)

// targetFlags describe how the target's TidbCluster differs from the source's.
type targetFlags struct {
	manifest     string
	patches      []string
	keepServices bool
	operator     string
	print        bool
}

func (f *targetFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.keepServices, "keep-service-settings", false,
		"keep the source's node ports, host names and load balancer addresses")
	fl.StringVar(&f.manifest, "from-manifest", "",
		"create the cluster from the TidbCluster, or the Cluster and its groups, in this file (- for standard input) "+
			"instead of the source's; refused if it could not open the data")
	f.addChanges(fl)
	fl.BoolVar(&f.print, "print-manifest", false,
		"check everything and print the cluster that would be created; change nothing")
}

// addChanges adds those that a drill has too.
func (f *targetFlags) addChanges(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.patches, "patch", nil,
		"patch file for the TidbCluster, YAML or JSON: a list is a JSON Patch, anything else a merge patch, which for "+
			"TiDB Operator 2.x has the kind and name of its object; may be repeated")
	fl.StringVar(&f.operator, "operator", "",
		"TiDB Operator that is to run the cluster: 1 (TidbCluster) or 2 (Cluster and groups); "+
			"the default is the source's, or the only one installed")
}

// readsInput reports whether a flag reads standard input.
func (f *targetFlags) readsInput() bool {
	return f.manifest == "-" || slices.Contains(f.patches, "-")
}

// into reads the files into the options.
func (f *targetFlags) into(cmd *cobra.Command, opts *restore.Options) error {
	opts.KeepServiceSettings = f.keepServices
	opts.Operator = f.operator
	if !slices.Contains([]string{"", "1", "2"}, f.operator) {
		return failure.New(failure.Usage, "read flags", "--operator", "%q is no generation of TiDB Operator",
			f.operator).
			WithHint("use 1 or 2")
	}
	if f.manifest != "" {
		text, err := readInput(cmd, f.manifest)
		if err != nil {
			return err
		}
		if opts.Changes.Manifest, err = kube.ReadManifest(text, f.manifest); err != nil {
			return err
		}
	}
	for _, file := range f.patches {
		text, err := readInput(cmd, file)
		if err != nil {
			return err
		}
		patch, err := operator1.ReadPatch(text, file)
		if err != nil {
			return err
		}
		opts.Changes.Patches = append(opts.Changes.Patches, patch)
	}
	return nil
}

// maxInput is larger than any Kubernetes object.
const maxInput = 4 << 20

// readInput reads a user's file, or standard input for a dash.
func readInput(cmd *cobra.Command, file string) ([]byte, error) {
	from := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, "read file", file)
		}
		defer f.Close() // it was only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = errors.New("too large for a Kubernetes object")
	}
	return text, failure.Wrap(err, failure.Usage, "read file", file)
}

// manifestDoc is the output of `tisnap restore --print-manifest`: the object itself, ready for kubectl.
type manifestDoc struct {
	of   cluster.Name
	yaml []byte
}

func printedManifest(opts restore.Options, p *restore.Plan) (document, error) {
	if p.TidbCluster == nil {
		return nil, failure.New(failure.Conflict, "print manifest", opts.Target.String(),
			"the cluster exists, so none would be created").
			WithHint("kubectl -n %s get tidbcluster %s -o yaml", opts.Target.Namespace, opts.Target.Name)
	}
	return &manifestDoc{of: opts.Target, yaml: p.TidbCluster}, nil
}

func (d *manifestDoc) table(w io.Writer, v view) error {
	_, err := w.Write(d.yaml)
	return err
}

// MarshalJSON returns the object, or a list of several.
func (d *manifestDoc) MarshalJSON() ([]byte, error) {
	return kube.ReadManifest(d.yaml, d.of.String())
}
