package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// ImportPolicy is what a backup does if an import runs when it begins.
type ImportPolicy string

// The policies.
const (
	RefuseOnImport ImportPolicy = "refuse" // fail before anything is changed
	WaitOnImport   ImportPolicy = "wait"   // until it has ended
	PauseOnImport  ImportPolicy = "pause"  // go on: TiKV refuses its files for the seconds of the hold
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

// RunningImports describes the imports that run: those registered in PD, and stores in import mode. Nothing is
// found of ADD INDEX, nor of an import that neither registers nor switches whole stores.
func RunningImports(ctx context.Context, p pd.Imports, t tikv.ImportModes, stores []cluster.Store) ([]string, error) {
	tasks, err := p.ImportTasks(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, task := range tasks {
		found = append(found, task.Kind+" "+task.Name)
	}
	modes, errs := make([]bool, len(stores)), make([]error, len(stores))
	var asking sync.WaitGroup
	for i, s := range stores {
		asking.Go(func() { modes[i], errs[i] = t.ImportMode(ctx, s.Address) })
	}
	asking.Wait()
	for i, s := range stores {
		if errs[i] != nil {
			return nil, failure.Annotate(errs[i], "check imports", "store "+s.ID.String())
		}
		if modes[i] {
			found = append(found, fmt.Sprintf("store %s (%s) is in import mode", s.ID, s.Address))
		}
	}
	return found, nil
}

// RefuseImports is the error for imports that run.
func RefuseImports(name cluster.Name, running []string) error {
	return failure.New(failure.Unready, "check imports", name.String(), "an import runs: %s", strings.Join(running, "; ")).
		WithHint("wait until it has ended, or choose --on-import=wait or --on-import=pause; of one that died, wait 3 min, and switch the stores back by: tikv-ctl or tidb-lightning-ctl --switch-mode=normal")
}
