package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// OnTasks is what to do about log backups and changefeeds of the restored cluster.
type OnTasks string

// The choices.
const (
	TasksReport OnTasks = "report" // continue, with a warning
	TasksPause  OnTasks = "pause"  // pause log backups and continue; changefeeds are reported
	TasksRefuse OnTasks = "refuse" // fail the run before data is changed
)

// TaskChoices lists the values of OnTasks, the default first.
func TaskChoices() []string {
	return []string{string(TasksReport), string(TasksPause), string(TasksRefuse)}
}

// restartTasks is the hint about tasks that ran while keys were flashed back.
const restartTasks = "a flashback reaches them as new writes of old rows: " +
	"stop them, and start them again from a full backup of the restored cluster"

// checkTasks finds log backups and changefeeds before data is changed: their output so far does not continue from the
// restored cluster (pingcap/tidb#39602, pingcap/tidb#39920).
func (r *run) checkTasks(ctx context.Context, s *phase.Scope) error {
	running, err := r.newTasks(ctx)
	if err != nil || len(running) == 0 {
		return err
	}
	if r.opts.OnTasks == TasksRefuse {
		return failure.New(failure.Unready, "check log backups and changefeeds", r.opts.Target.String(), "%s run",
			names(running)).
			WithHint("stop them (`br log stop`, `cdc cli changefeed remove`), or continue with --on-tasks %s",
				TasksReport)
	}
	if r.opts.OnTasks == TasksPause {
		for i, task := range running {
			if task.Kind != pd.TaskLogBackup {
				continue
			}
			if err := r.pd.PauseLogBackup(ctx, task.Name); err != nil {
				return failure.Annotate(err, "pause log backup", task.Name)
			}
			running[i].State = "paused"
			s.Note("log backup %s is paused", task.Name)
		}
	}
	r.warnOf(s, running)
	return nil
}

// checkTasksAgain finds those created while data was resolved.
func (r *run) checkTasksAgain(ctx context.Context, s *phase.Scope) error {
	running, err := r.newTasks(ctx)
	if err != nil || len(running) == 0 {
		return err
	}
	r.warnOf(s, running)
	return nil
}

// newTasks lists the running tasks that are not in the result yet.
func (r *run) newTasks(ctx context.Context) ([]pd.Task, error) {
	tasks, err := r.pd.Tasks(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "check log backups and changefeeds", r.opts.Target.String())
	}
	return slices.DeleteFunc(tasks, func(task pd.Task) bool {
		known := slices.ContainsFunc(r.result.Tasks,
			func(k pd.Task) bool { return k.Kind == task.Kind && k.Name == task.Name })
		return known || !task.Running()
	}), nil
}

func (r *run) warnOf(s *phase.Scope, tasks []pd.Task) {
	r.result.found(tasks)
	r.warn(s, fmt.Sprintf("%s read the changes of cluster %s; %s", names(tasks), r.opts.Target, restartTasks))
}

// warn shows a warning now, and keeps it for the report.
func (r *run) warn(s *phase.Scope, text string) {
	s.Warn("%s", text)
	r.result.warn(text)
}

// names is "log backup a, changefeed b/c/d".
func names(tasks []pd.Task) string {
	out := make([]string, len(tasks))
	for i, task := range tasks {
		out[i] = taskName(task)
	}
	return strings.Join(out, ", ")
}

func taskName(of pd.Task) string {
	return strings.ReplaceAll(string(of.Kind), "-", " ") + " " + of.Name
}
