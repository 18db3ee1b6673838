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

// session is what a long command shows of itself: progress, and a log that does not disturb it.
type session struct {
	progress *ui.Progress
	log      *zap.Logger
	file     *os.File
	mute     func() // writes nothing more to stderr
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
	var out io.Writer = s.progress.Writer()
	if s.file != nil {
		out = s.file
	}
	s.log = zap.New(zapcore.NewCore(encoder(a.global.logFormat), zapcore.AddSync(out), level))
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

// end takes the live line down before results are printed. It may be called twice.
func (s *session) end() {
	_ = s.log.Sync() // a log on a terminal cannot be synced, and says so
	// A stderr that is gone must not fail the run, and one that nobody reads must not hang it.
	if err := s.progress.Close(); errors.Is(err, ui.ErrUnread) {
		s.mute()
	}
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// runID is the one that the user chose, or a new one.
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

// runIDs are those that fit into the names of Kubernetes objects and the values of tags.
func runIDs() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`) }

// newOwner is who takes locks in a command that is no run itself.
func newOwner(cmd *cobra.Command) (runlock.Owner, error) {
	run, err := runID("")
	return owner(cmd, run), err
}

func owner(cmd *cobra.Command, run cluster.RunID) runlock.Owner {
	return runlock.NewOwner(run, cmd.Name())
}
