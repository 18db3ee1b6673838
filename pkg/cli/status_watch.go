package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// redraws reports whether a table can be redrawn: standard output is a terminal, and no program reads it.
func (a *app) redraws() bool {
	file, ok := a.streams.Out.(*os.File)
	return (a.global.output == "table" || a.global.output == "wide") &&
		(a.streams.asTerminal || ok && term.IsTerminal(int(file.Fd())))
}

// watchClusters redraws the table until ctx ends, which is not a failure. A storage that could be read once may fail
// for a while: then the old table stays, with the error below.
func (a *app) watchClusters(
	ctx context.Context, interval time.Duration, look func(context.Context) (*clustersDoc, error),
) error {
	var shown *clustersDoc
	for {
		doc, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user has seen enough
		case err != nil && shown == nil:
			return err
		case err == nil:
			shown, err = doc, doc.problem()
		}
		if err := a.redraw(shown, interval, err); err != nil {
			return failure.Annotate(err, "print status", "")
		}
		if wait.For(ctx, interval) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}

// redraw draws over the last table, line by line, so that nothing flickers.
func (a *app) redraw(d *clustersDoc, interval time.Duration, problem error) error {
	const home, restOfLine, below = "\x1b[H", "\x1b[K", "\x1b[J"
	var text bytes.Buffer
	fmt.Fprintf(&text, "every %s, read %s; Ctrl-C ends\n\n", interval, a.view().text(d.now))
	err := d.table(&text, a.view())
	if problem != nil {
		fmt.Fprintf(&text, "\nerror: %s\n", oneLine(problem))
	}
	lines := strings.ReplaceAll(failure.Lines(text.String()), "\n", restOfLine+"\n")
	_, writeErr := io.WriteString(a.streams.Out, home+lines+below)
	return errors.Join(err, writeErr)
}
