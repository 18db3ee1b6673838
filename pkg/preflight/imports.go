package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/pd"
)

// ImportPolicy is what a backup does if an import is running at its start.
type ImportPolicy string

// The policies.
const (
	RefuseOnImport ImportPolicy = "refuse" // fail before anything is changed
	WaitOnImport   ImportPolicy = "wait"   // until it has ended
	PauseOnImport  ImportPolicy = "pause"  // continue: TiKV refuses its files for the seconds of the hold
)

// ImportPolicies lists the policies, the default first.
func ImportPolicies() []string {
	return []string{string(RefuseOnImport), string(WaitOnImport), string(PauseOnImport)}
}

// ParseImportPolicy reads a policy; an unknown one is Usage.
func ParseImportPolicy(s string) (ImportPolicy, error) {
	if !slices.Contains(ImportPolicies(), s) {
		return "", failure.New(failure.Usage, "read --on-import", s, "want %s", strings.Join(ImportPolicies(), ", "))
	}
	return ImportPolicy(s), nil
}

// importModes is the part of tikv.Holder that finding imports needs.
type importModes interface {
	ImportMode(ctx context.Context, address string) (bool, error)
}

// RunningImports describes the running imports: those registered in PD, and stores in import mode. It finds neither ADD
// INDEX nor imports that neither register nor switch whole stores.
func RunningImports(ctx context.Context, p pd.Imports, t importModes, stores []cluster.Store) ([]string, error) {
	tasks, err := p.ImportTasks(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, task := range tasks {
		found = append(found, task.Kind+" "+task.Name)
	}
	modes := make([]bool, len(stores))
	err = parallel.Each(ctx, 0, stores, func(ctx context.Context, i int, s cluster.Store) (err error) {
		modes[i], err = t.ImportMode(ctx, s.Address)
		return failure.Annotate(err, "check imports", "store "+s.ID.String())
	})
	if err != nil {
		return nil, err
	}
	for i, s := range stores {
		if modes[i] {
			found = append(found, fmt.Sprintf("store %s (%s) is in import mode", s.ID, s.Address))
		}
	}
	return found, nil
}

// RefuseImports returns the error for running imports.
func RefuseImports(name cluster.Name, running []string) error {
	return failure.New(failure.Unready, "check imports", name.String(), "an import is running: %s",
		strings.Join(running, "; ")).
		WithHint("wait until it has ended, or choose --on-import=wait or --on-import=pause; if it died, wait 3 " +
			"minutes, or switch the stores back with: tikv-ctl or tidb-lightning-ctl --switch-mode=normal")
}
