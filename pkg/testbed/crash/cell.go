package crash

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Position is where in a step the program is killed.
type Position string

// The positions.
const (
	BeforeEffect  Position = "before the effect"  // the step's begin is in the journal
	AfterEffect   Position = "before the answer"  // the effect is done, its answer lost
	BeforeJournal Position = "before the journal" // the step is done, its record lost
	InUndo        Position = "in the undo"        // the run was stopped after the step, and is undoing it
	AfterUndo     Position = "after the undo"     // the step is undone, its record lost
	Suspended     Position = "suspended"          // not killed: another process finishes the run, then this one wakes up
	SuspendedUndo Position = "suspended-undo"     // the same in the undo of the step, after which the run was stopped
)

// Positions lists all of them, in the order of a step.
func Positions() []Position { return append(Killed(), Suspended, SuspendedUndo) }

// Killed are those in which the program is killed.
func Killed() []Position {
	return []Position{BeforeEffect, AfterEffect, BeforeJournal, InUndo, AfterUndo}
}

// Cell is one place at which a run is killed.
type Cell struct {
	Run      Run
	Step     string
	Position Position
	Point    string // of AfterEffect, Suspended and SuspendedUndo: the call whose answer is lost or late; of a command without steps, the call that is not made
	Then     Then   // what follows the kill
	since    string // the step from whose begin on that call counts
}

// String is "backup/cut: before the answer of ec2.CreateSnapshots", or "prune/prune: before the effect of ec2.DeleteSnapshot".
func (c Cell) String() string {
	text := fmt.Sprintf("%s/%s: %s", c.Run, c.Step, c.Position)
	if c.Point != "" {
		text += " of " + c.Point
	}
	if c.Then != Again {
		text += ", then " + string(c.Then)
	}
	return text
}

// effects are the points of calls that change something outside of the journal.
func effects() *regexp.Regexp {
	return regexp.MustCompile(`^(object\.|s3\.Delete|ec2\.(Create|Delete|Modify|Enable|Disable|Lock|CopySnapshot$)|ebs\.(Start|Put|Complete)` +
		`|kube\.(create|update|patch|delete)\.(tidbclusters|clusters|[a-z]+groups|tikvs|pods|jobs|persistent.*|namespaces|networkpolicies|resourcequotas)` +
		`|pd\.(Pause|Resume|Set|Drop|Update|Mark|Unmark|Raise|Put|Delete|Reset)` +
		`|tikv\.\d+\.(Prepare|Suspend|Deny|Switch|RecoverRegion|KvPrepare|KvFlashback))`)
}

// anyStore leaves the number of the store out of a point's name.
func anyStore(point string) string {
	return regexp.MustCompile(`^tikv\.\d+\.`).ReplaceAllString(point, "tikv.*.")
}

// Cells makes the cells of a run: from its steps, and from the points that an undisturbed run of it asked; without steps
// from the points alone. A step that the run did not come to is an error: the run lacks an option.
func Cells(run Run, steps []phase.Outline, points []string) ([]Cell, error) {
	if steps == nil {
		return effectCells(run, points)
	}
	begun, touched, first := trace(run, points)
	var out []Cell
	for i, s := range steps {
		since := s.Name
		if s.NoWait && i > 0 { // its effects may come before its begin is written
			since = steps[i-1].Name //nolint:gosec // i is above 0
		}
		if !begun[s.Name] {
			return nil, fmt.Errorf("%s/%s: the undisturbed run did not come to this step", run, s.Name)
		}
		out = append(out, Cell{Run: run, Step: s.Name, Position: BeforeEffect})
		for _, point := range touched[s.Name] {
			out = append(out, Cell{Run: run, Step: s.Name, Position: AfterEffect, Point: point, since: from(since, first[point] == s.Name)})
		}
		if !s.ReadOnly {
			out = append(out, Cell{Run: run, Step: s.Name, Position: BeforeJournal})
		}
		if s.Undo && run != Archive && run != Copy { // which stay unfinished: the same command resumes them
			out = append(out, Cell{Run: run, Step: s.Name, Position: InUndo}, Cell{Run: run, Step: s.Name, Position: AfterUndo})
		}
		out = append(out, suspended(run, s, since, touched[s.Name], first)...)
		out = append(out, suspendedUndo(run, s)...)
	}
	return out, nil
}

// suspended are the cells of a step that changes something: at its begin, and in the middle of its effects. One who does
// not hold the lock yet, or releases it already, has nothing to lose.
func suspended(run Run, s phase.Outline, since string, points []string, first map[string]string) []Cell {
	if s.ReadOnly || s.Name == journal.StepLock || s.Name == "unlock" {
		return nil
	}
	out := []Cell{{Run: run, Step: s.Name, Position: Suspended, since: s.Name}}
	if len(points) > 0 {
		out = append(out, Cell{Run: run, Step: s.Name, Position: Suspended, Point: points[0], since: from(since, first[points[0]] == s.Name)})
	}
	return out
}

// undoCalls are the calls in which undos of a run take something away.
func undoCalls(run Run) map[string]string {
	object := "kube.delete.tidbclusters"
	if run.operator() == 2 {
		object = "kube.delete.clusters"
	}
	return map[string]string{
		journal.StepCut: "ec2.DeleteSnapshot", journal.StepWriteSnapshots: "ec2.DeleteSnapshot", journal.StepRecord: "s3.DeleteObject", journal.StepHold: "pd.ResumeScheduler",
		journal.StepCreateCluster: object, journal.StepCreateVolumes: "ec2.DeleteVolume",
		journal.StepFillVolumes: "kube.delete.persistentvolumeclaims", "fast-restore": "ec2.DisableFastSnapshotRestores", journal.StepFreezeScheduling: "pd.DropTTLConfig",
	}
}

// suspendedUndo are the cells of a step that has an undo: at the begin of it, and in the middle of what it takes away.
func suspendedUndo(run Run, s phase.Outline) []Cell {
	if !s.Undo || s.Name == journal.StepLock {
		return nil
	}
	out := []Cell{{Run: run, Step: s.Name, Position: SuspendedUndo}}
	if call := undoCalls(run)[s.Name]; call != "" {
		out = append(out, Cell{Run: run, Step: s.Name, Position: SuspendedUndo, Point: call})
	}
	return out
}

// anyStep is for Cell.since: the call counts from the first step in the journal on.
const anyStep = "*"

// secondLock is for Cell.since of a drill: the call counts once its restore takes its lock, after checks that only try calls.
const secondLock = "the second lock"

// from is the step from whose begin on the call counts. If it is the first one of its kind, that counts whenever it comes,
// but not the dry run of the checks, which are made before the journal is: a step that is under way at the same time may
// begin after the call in one run, and before it in another.
func from(since string, first bool) string {
	if first {
		return anyStep
	}
	return since
}

// effectCells makes the cells of a command without steps: before and after each kind of effect, and in it if the command
// has a lease to lose.
func effectCells(run Run, points []string) ([]Cell, error) {
	var out []Cell
	_, touched, _ := trace(run, append([]string{"journal.begin." + string(run)}, points...))
	for _, point := range touched[string(run)] {
		positions := []Position{BeforeEffect, AfterEffect}
		if run.inRepository() {
			positions = append(positions, Suspended)
		}
		for _, at := range positions {
			out = append(out, Cell{Run: run, Step: string(run), Position: at, Point: point})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the undisturbed run changed nothing", run)
	}
	return out, nil
}

// polls reports whether the run makes the call when it polls, and not as a step: a restore pauses a scheduler as soon as PD
// has made it, in whatever step that is, and resumes those that it has paused. The rounds of chaos kill it there.
func (r Run) polls(point string) bool {
	return r.restores() && (point == "pd.PauseScheduler" || point == "pd.ResumeScheduler")
}

// trace reads which steps were begun, which kinds of effects each had, and in which each kind was seen first.
func trace(run Run, points []string) (begun map[string]bool, touched map[string][]string, first map[string]string) {
	begun, touched, first = map[string]bool{}, map[string][]string{}, map[string]string{}
	step, changes := "", effects()
	for _, point := range points {
		if name, ok := strings.CutPrefix(point, "journal.begin."); ok {
			step, begun[name] = name, true
		}
		if point == "journal.end" { // what comes later is no longer the run's
			step = ""
		}
		if step == "" || !changes.MatchString(point) || run.polls(point) || point == "object.lock" && step != "lock" && step != "unlock" {
			continue
		}
		point = anyStore(point)
		// Steps of a restore are under way at the same time: a call of EC2 is of the first of them that was seen to make it.
		if slices.Contains(touched[step], point) || strings.HasPrefix(point, "ec2.") && first[point] != "" {
			continue
		}
		touched[step] = append(touched[step], point)
		if first[point] == "" {
			first[point] = step
		}
	}
	return begun, touched, first
}

// Sample takes n cells, spread over all of them and beginning at a place that the seed determines; all for 0.
func Sample(all []Cell, n int, seed int64) []Cell {
	if n <= 0 || n >= len(all) {
		return all
	}
	var out []Cell
	for i := range n {
		out = append(out, all[(i*len(all)/n+int(seed))%len(all)])
	}
	slices.SortFunc(out, func(a, b Cell) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}
