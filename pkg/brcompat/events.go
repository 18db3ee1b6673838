package brcompat

import (
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// logStarted writes the line from which backup-manager 1.6.6 adds a run to status.brOperations of its CR. The id is the
// run's, as in its journal and in the tags of everything that it makes.
func (a *app) logStarted(run cluster.RunID, command string) {
	a.log.print("BR operation started", zap.String("operation_id", string(run)),
		zap.String("operation_started_at", time.Now().Format(time.RFC3339Nano)), zap.String("command", command))
}

// events logs a run's events and passes them on.
type events struct {
	log  *zap.Logger
	next phase.Sink
}

// Emit implements phase.Sink.
func (l events) Emit(e phase.Event) {
	l.next.Emit(e)
	step := []zap.Field{zap.String("phase", e.Phase), zap.String("step", e.Step)}
	took := append(step, zap.Duration("took", e.Elapsed)) // step is not used after that
	switch e.Type {
	case phase.StepStarted:
		l.log.Info("step started", step...)
	case phase.StepFinished:
		l.log.Info("step finished", took...)
	case phase.StepFailed:
		l.log.Warn("step failed", append(took, zap.String("reason", e.Message))...)
	case phase.PhaseFinished:
		l.log.Info("phase finished", zap.String("phase", e.Phase), zap.Duration("took", e.Elapsed))
	case phase.Note:
		l.log.Info(e.Message, step...)
	case phase.Warning:
		l.log.Warn(e.Message, step...)
	case phase.UndoStarted:
		l.log.Info("undo started", step...)
	case phase.UndoFinished:
		l.log.Info("undo finished", took...)
	case phase.UndoFailed:
		l.log.Error("undo failed", append(took, zap.String("reason", e.Message))...)
	case phase.Progress, phase.PhaseStarted: // the progress file shows it; its first step shows the same
	}
}
