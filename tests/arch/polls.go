package arch

import (
	"go/ast"
	"path"
)

// Why a loop pauses on its own instead of using wait.Until.
const (
	follows  = "it renews, follows or paces something for as long as it runs"
	answered = "whether and how long it pauses depends on the answer"
	between  = "between two tries it does more than pause: it moves on at once, or sends something again"
	tries    = "it is bounded by a number of tries"
	ways     = "it has several ways out, each with its own result"
)

// pauses are the files whose loops call wait.For, and why.
func pauses() map[string]string {
	return map[string]string{
		"pkg/backup/await_snapshots.go":          ways,
		"pkg/backup/await_steady.go":             ways,
		"pkg/backup/backup_ts.go":                ways,
		"pkg/backup/delete_snapshots.go":         ways,
		"pkg/brcompat/progress.go":               follows,
		"pkg/catalog/deletions.go":               tries,
		"pkg/cli/background.go":                  ways,
		"pkg/cli/logs.go":                        follows,
		"pkg/cli/status_watch.go":                follows,
		"pkg/earlyapply/replicas.go":             tries,
		"pkg/hold/guard.go":                      follows,
		"pkg/hold/observe.go":                    follows,
		"pkg/hold/observe_prove.go":              ways,
		"pkg/hold/settle.go":                     between,
		"pkg/hold/store.go":                      tries,
		"pkg/kube/bind_volume.go":                ways,
		"pkg/kube/forward/tunnel.go":             follows,
		"pkg/kube/permissions.go":                ways,
		"pkg/kube/refusal.go":                    between,
		"pkg/outbound/client.go":                 answered,
		"pkg/pd/topology.go":                     tries,
		"pkg/phase/retry_step.go":                answered,
		"pkg/resolve/apply.go":                   between,
		"pkg/resolve/check_unchanged.go":         between,
		"pkg/resolve/extend_logs.go":             between,
		"pkg/resolve/find_ahead.go":              between,
		"pkg/resolve/freeze/freeze.go":           follows,
		"pkg/resolve/hand_over.go":               between,
		"pkg/resolve/leaders.go":                 between,
		"pkg/resolve/rebuild.go":                 ways,
		"pkg/restore/fromarchive/delete.go":      ways,
		"pkg/restore/volumes/create.go":          between,
		"pkg/restore/volumes/delete.go":          ways,
		"pkg/restore/volumes/fast_restore.go":    tries,
		"pkg/restore/volumes/running_profile.go": ways,
		"pkg/runlock/check.go":                   answered,
		"pkg/runlock/watch.go":                   ways,
		"pkg/runs/read.go":                       ways,
	}
}

// polls looks for loops of shipped code that poll on their own: wait.Until ends them all in the same way.
func (c *checker) polls() {
	if c.source.isTest() || testOnly(path.Dir(c.source.Path)) {
		return
	}
	_, listed := pauses()[c.source.Path]
	found := false
	ast.Inspect(c.file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
		default:
			return true
		}
		ast.Inspect(n, func(inner ast.Node) bool {
			pause, ok := inner.(*ast.SelectorExpr)
			if !ok || pause.Sel.Name != "For" {
				return true
			}
			if from, ok := pause.X.(*ast.Ident); !ok || c.imported(from.Name) != Module+"/pkg/wait" {
				return true
			}
			if found = true; !listed {
				c.report(pause.Pos(), "a loop that pauses on its own: use wait.Until, or add the file to polls.go with the reason")
			}
			return true
		})
		return false
	})
	if listed && !found {
		c.report(c.file.Package, "it is in polls.go, and no loop of it pauses")
	}
}
