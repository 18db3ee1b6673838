package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/tisnap/tisnap/pkg/failure"
)

// asks reports whether there is a user to ask: standard input is a terminal, and no program reads the output.
func (a *app) asks() bool {
	file, ok := a.streams.In.(*os.File)
	return ok && !a.machine() && (term.IsTerminal(int(file.Fd())) || a.streams.asTerminal)
}

// confirm asks and returns a Usage error unless the answer is yes.
func (a *app) confirm(ctx context.Context, question string) error {
	line, err := a.ask(ctx, question+" [y/N] ")
	if err != nil {
		return err
	}
	if s := strings.ToLower(line); s == "y" || s == "yes" {
		return nil
	}
	return failure.New(failure.Usage, "confirm", "", "not confirmed; nothing was changed")
}

// ask asks on standard error and returns the line that the user answers with. The first Ctrl-C cancels it.
func (a *app) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(a.streams.Err, question)
	answer := make(chan string, 1)
	go func() { // a terminal read cannot be cancelled: it lasts as long as the process
		line, err := bufio.NewReader(a.streams.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return "", failure.Annotate(context.Cause(ctx), "confirm", "")
	case line := <-answer:
		return strings.TrimSpace(line), nil
	}
}
