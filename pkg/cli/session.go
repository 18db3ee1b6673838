package cli

import (
	"errors"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/ui"
)

// session is a long command's output while it runs: progress, and a log that does not disturb it.
type session struct {
	progress *ui.Progress
	log      *zap.Logger
	file     *os.File
	mute     func() // stops writing to stderr
}

func (a *app) session() (*session, error) {
	level, err := zapcore.ParseLevel(a.global.logLevel)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read --log-level", a.global.logLevel)
	}
	s := &session{mute: func() { a.streams.Err = io.Discard }}
	if a.global.logFile != "" {
		s.file, err = os.OpenFile(a.global.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, "open --log-file", a.global.logFile)
		}
	}
	s.progress = ui.New(ui.Options{Mode: a.global.progress, Out: a.streams.Err})
	var core zapcore.Core
	switch {
	case s.file != nil:
		core = zapcore.NewCore(encoder(a.global.logFormat), zapcore.AddSync(s.file), level)
	case s.progress.Mode() != ui.JSON && a.global.logFormat != "json":
		core = &progressCore{LevelEnabler: level, sink: s.progress}
	default:
		core = zapcore.NewCore(encoder(a.global.logFormat), zapcore.AddSync(s.progress.Writer()), level)
	}
	s.log = zap.New(core)
	return s, nil
}

func encoder(format string) zapcore.Encoder {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	if format == "json" {
		return zapcore.NewJSONEncoder(cfg)
	}
	return zapcore.NewConsoleEncoder(cfg)
}

// end removes the live line before results are printed. Idempotent.
func (s *session) end() {
	_ = s.log.Sync() // syncing a terminal always fails
	// A closed stderr must not fail the run, and a blocked one must not hang it.
	if err := s.progress.Close(); errors.Is(err, ui.ErrUnread) {
		s.mute()
	}
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// runID returns the id that the user chose, or a new one.
func runID(chosen string) (cluster.RunID, error) {
	if chosen == "" {
		return journal.NewRunID(time.Now())
	}
	if !runIDs().MatchString(chosen) {
		return "", failure.New(failure.Usage, "read --run-id", chosen,
			"want up to 40 lower-case letters, digits and hyphens")
	}
	return cluster.RunID(chosen), nil
}

// runIDs matches ids that fit into names of Kubernetes objects and tag values.
func runIDs() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`) }

// newOwner returns the lock owner for a command that is not itself a run.
func newOwner(cmd *cobra.Command) (runlock.Owner, error) {
	run, err := runID("")
	return owner(cmd, run), err
}

func owner(cmd *cobra.Command, run cluster.RunID) runlock.Owner {
	return runlock.NewOwner(run, cmd.Name())
}
