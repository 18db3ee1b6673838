package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// killedRun is the id of a run that was killed.
const killedRun = "killed-1"

// firstTarget is the cluster of a world's first restore.
var firstTarget = cluster.Name{Namespace: "tidb", Name: "copy-1"}

// changesNothing are the other commands, with the reason why an eviction in the middle of each leaves nothing.
func changesNothing() map[string]string {
	const reads, parent, oneObject = "it reads alone", "it has no work of its own", "it replaces one object, as the last thing"
	return map[string]string{
		"archive": parent, "archive init": "it proves the storage by an object that it deletes, and writes repo.json as the last thing",
		"archive list": reads, "archive describe": reads, "archive bench": reads,
		"archive verify":  "it reads, and records that by one object in the repository, and another in the storage, as the last thing",
		"archive restore": "each file that it writes gets its name as the last thing, and the same command finishes its snapshots and claims",
		"archive key":     parent, "archive key list": reads, "archive key add": oneObject, "archive key remove": oneObject, "archive key rotate": oneObject,
		"archive import": "the archive is one object, written as the last thing, and the same command continues",
		"archive forget": "each tombstone is one object, and the same command writes the rest",
		"archive join":   "who resumes or shares the run does again what has no result",
		"archive prune":  "the next one continues with what it condemned, and deletes only that",
		"archive repair": "archives are replaced one by one as the last thing, and the same command repairs the rest",
		"archive cat":    "it reads, and a file that it writes gets its name as the last thing",
		"archive fill":   "the same command writes what is not whole",
		"completion":     parent, "estimate": parent, "generate": parent, "hold": parent, "runs": parent,
		"adopt":           "each object that it writes is written once, the seal last, and the same command finishes it",
		"doctor":          "it writes one object, which belongs to no run, and deletes it",
		"generate bucket": "it prints a script", "generate cronjob": "it prints objects", "generate iam": "it prints a policy",
		"generate rbac": "it prints objects", "generate terraform": "it prints a configuration",
		"completion bash": "it prints a script", "completion fish": "it prints a script",
		"completion powershell": "it prints a script", "completion zsh": "it prints a script",
		"help": "it prints text", "version": "it prints text",
		"lock": "what it has locked stays locked, and the same command finishes the set", "unlock": "the same command finishes the set",
		"pin": "it writes one object, as the last thing", "unpin": "it deletes one object, as the last thing",
		"exporter":        "it reads the storage and serves what it has read",
		"estimate backup": reads, "estimate restore": reads,
		"describe": reads, "hold status": reads, "list": reads, "logs": reads, "report": "it reads, and writes its page as the last thing",
		"drill list": reads, "drill report": reads, "runs describe": reads, "runs list": reads, "status": reads,
	}
}

// Every command of the shipped program is tried above, or changes nothing, for the reason given.
func TestGrace_EveryCommandIsTriedOrChangesNothing(t *testing.T) {
	t.Parallel()
	path, err := shipped.Program()
	require.NoError(t, err)
	tried := slices.Concat(slices.Collect(maps.Keys(graceful())), slices.Collect(maps.Keys(changesNothing())))
	require.ElementsMatch(t, commandsBelow(t, path), tried, "give a new command a row in one of the two tables, and take away that of one that is gone")
}

// commandsBelow are the commands below one, by what its help lists.
func commandsBelow(t *testing.T, program string, parent ...string) []string {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), program, append(parent, "--help")...).Output()
	require.NoError(t, err)
	_, list, found := bytes.Cut(help, []byte("\nAvailable Commands:\n"))
	if !found {
		return nil
	}
	list, _, _ = bytes.Cut(list, []byte("\n\n"))
	var all []string
	for line := range strings.Lines(string(list)) {
		words := append(slices.Clone(parent), strings.Fields(line)[0])
		all = append(all, strings.Join(words, " "))
		if words[0] != "help" { // which is the help of its parent
			all = append(all, commandsBelow(t, program, words...)...)
		}
	}
	return all
}

// ofRun makes what a run of the matrix works on.
func ofRun(run Run) func(context.Context, *world) ([]string, error) {
	return func(ctx context.Context, w *world) ([]string, error) {
		s := w.scene(run)
		return s.args(), s.prepare(ctx)
	}
}

// ofKilled kills a run at the begin of a step, for a command that removes what it left.
func ofKilled(run Run, step string, args ...string) func(context.Context, *world) ([]string, error) {
	return func(ctx context.Context, w *world) ([]string, error) {
		s := w.scene(run)
		trap := NewTrap(Cell{Step: step, Position: BeforeEffect}, func(sig syscall.Signal) { w.program.Signal(sig) })
		w.faults.Watch(trap.Watch)
		defer w.faults.Watch(nil)
		code, err := w.tisnap(ctx, append(s.args(), "--run-id", killedRun)...)
		if err == nil && !trap.Hit() {
			err = fmt.Errorf("the %s was not killed: it ended with %d", run, code)
		}
		if err != nil {
			return nil, err
		}
		return args, w.expire(ctx, s.locked())
	}
}

// ofCopy copies the baseline into another storage.
func ofCopy(ctx context.Context, w *world) ([]string, error) {
	s := w.scene(Archive)
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	return []string{"copy", s.name, "--to-storage", w.copies(), "--to-region", testbed.AwayRegion}, nil
}

// copies is where ofCopy copies to.
func (w *world) copies() string { return fmt.Sprintf("s3://%s/copies-%d", testbed.Bucket, w.n) }

// expireCopy lets the locks of the copy of ofCopy expire.
func expireCopy(ctx context.Context, w *world) (err error) {
	s := &scene{world: w, run: Copy}
	if s.store, err = s.openAt(ctx, w.copies()); err != nil {
		return err
	}
	return s.locksEnd(ctx)
}

// ofDrill drills the baseline.
func ofDrill(ctx context.Context, w *world) ([]string, error) {
	s := w.scene(Archive)
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	return []string{"drill", s.name, "--tables", "all", "--timeout", "1m"}, nil
}

// ofKilledDrill kills a drill of the baseline when its cage is half made, and removes what it left.
func ofKilledDrill(ctx context.Context, w *world) ([]string, error) {
	args, err := ofDrill(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := w.killDrill(ctx, args, killPoint{call: "kube.create.resourcequotas"}); err != nil {
		return nil, err
	}
	return []string{"drill", "clean", killedRun, "--yes"}, nil
}

// killDrill runs a drill that is killed before a call, and lets its locks expire.
func (w *world) killDrill(ctx context.Context, args []string, at killPoint) error {
	var calls, locks atomic.Int64
	w.faults.Watch(func(point string) *fault.Rule {
		if point == "journal.begin.lock" {
			locks.Add(1)
		}
		if point == at.call && locks.Load() >= at.locks && calls.Add(1) == max(at.nth, 1) {
			w.program.Signal(syscall.SIGKILL)
			return &fault.Rule{Position: fault.Stall}
		}
		return nil
	})
	defer w.faults.Watch(nil)
	code, err := w.tisnap(ctx, append(args, "--run-id", killedRun)...)
	if err == nil && calls.Load() < max(at.nth, 1) {
		err = fmt.Errorf("the drill was not killed: it ended with %d", code)
	}
	if err != nil {
		return err
	}
	return w.expireDrill(ctx)
}

// drillLocks are those of the drill that is killed: its own, and that of its restore.
func drillLocks() []cluster.Name {
	about := journal.About{Operation: journal.Drill, Cluster: source}
	return []cluster.Name{about.Lock(), {Namespace: cage.Name(killedRun), Name: source.Name}}
}

// expireDrill ends them.
func (w *world) expireDrill(ctx context.Context) error {
	var errs []error
	for _, name := range drillLocks() {
		errs = append(errs, w.expire(ctx, name))
	}
	return errors.Join(errs...)
}

// ofPaused pauses a scheduler of the cluster, as a backup does that is gone since.
func ofPaused(ctx context.Context, w *world) ([]string, error) {
	c := w.bed.Nodes.Cluster(source)
	p, err := pd.Open(ctx, pd.Config{Addresses: c.PD.URLs()})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return []string{"release", source.String(), "--all", "--yes"}, p.PauseScheduler(ctx, c.PD.Schedulers()[0].Name, time.Hour)
}
