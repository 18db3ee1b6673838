package brcompat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pingcap/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/failure"
)

// logToTerm is the environment variable that sends br's log to the terminal. Only its presence counts: the Operator
// sets it to the byte 1.
const logToTerm = "BR_LOG_TO_TERM"

// logger writes the log in PingCAP's format, and the lines that the Operator waits for.
type logger struct {
	*zap.Logger

	echo *zap.Logger // writes to stdout as well, as text
	ends *zap.Logger // receives the run's final error: a file, or stdout as text
	file *os.File    // nil if the log goes to stdout
}

// openLog opens the log as br does: stdout if BR_LOG_TO_TERM is set, else --log-file.
func openLog(c *Common, streams Streams) (*logger, error) {
	// The lines that the Operator reads are written at any level, and as text in any format: it looks for
	// "resolved_ts=N" and "[ERROR]", which JSON lacks. PingCAP's br with --log-format=json leaves its Backup without a
	// ts.
	out := zapcore.Lock(zapcore.AddSync(streams.Out))
	text, err := newLogger(&Common{LogLevel: "info", LogFormat: "text"}, out)
	if err != nil {
		return nil, err
	}
	if _, ok := os.LookupEnv(logToTerm); ok {
		terminal, err := newLogger(c, out)
		if err != nil {
			return nil, err
		}
		return &logger{Logger: terminal, echo: text, ends: text}, nil
	}
	name := c.LogFile
	if name == "" {
		name = filepath.Join(os.TempDir(), time.Now().Format("br.log.2006-01-02T15.04.05Z0700"))
	}
	file, err := os.OpenFile(filepath.Clean(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "open --log-file", name)
	}
	fmt.Fprintf(streams.Err, "Detail BR log in %s \n", name)
	filed, err := newLogger(c, zapcore.Lock(file))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	both := zap.New(zapcore.NewTee(filed.Core(), text.Core()), zap.AddCaller())
	return &logger{Logger: filed, echo: both, ends: filed, file: file}, nil
}

func newLogger(c *Common, out zapcore.WriteSyncer) (*zap.Logger, error) {
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return nil, failure.New(failure.Usage, "read --log-format", c.LogFormat, "want text or json")
	}
	made, _, err := log.InitLoggerWithWriteSyncer(&log.Config{
		Level: c.LogLevel, Format: c.LogFormat, DisableStacktrace: true,
	}, out, out)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read --log-level", c.LogLevel)
	}
	return made, nil
}

// print writes a line that the Operator waits for or that summarizes the run, to stdout too if the log is a file.
func (l *logger) print(message string, fields ...zap.Field) {
	l.echo.WithOptions(zap.AddCallerSkip(1)).Info(message, fields...)
}

// failed writes the run's final error.
func (l *logger) failed(message string) { l.ends.Error("br failed", zap.String("error", message)) }

// close closes the log. An error means that the end of --log-file may be missing.
func (l *logger) close() error {
	_ = l.Sync() // syncing a pipe always fails
	if l.file == nil {
		return nil
	}
	return failure.Wrap(l.file.Close(), failure.Unknown, "close --log-file", l.file.Name())
}
