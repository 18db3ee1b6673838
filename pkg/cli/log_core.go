package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/phase"
)

// progressCore shows log entries as the progress shows a run's own notes and warnings.
type progressCore struct {
	zapcore.LevelEnabler
	sink   phase.Sink
	fields []zapcore.Field
}

// With implements zapcore.Core.
func (c *progressCore) With(fields []zapcore.Field) zapcore.Core {
	return &progressCore{LevelEnabler: c.LevelEnabler, sink: c.sink, fields: slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c *progressCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core: an error ends the message, anything else is in brackets.
func (c *progressCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(values)
	}
	err, failed := values.Fields["error"]
	delete(values.Fields, "error")
	delete(values.Fields, "errorVerbose")
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
		rest = append(rest, fmt.Sprintf("%s %v", name, values.Fields[name]))
	}
	message := e.Message
	if len(rest) > 0 {
		message += " (" + strings.Join(rest, ", ") + ")"
	}
	if failed {
		message += fmt.Sprintf(": %v", err)
	}
	event := phase.Event{Type: phase.Note, Time: e.Time, Message: message}
	if e.Level >= zapcore.WarnLevel {
		event.Type = phase.Warning
	}
	c.sink.Emit(event)
	return nil
}

// Sync implements zapcore.Core.
func (c *progressCore) Sync() error { return nil }
