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

// confirm asks on standard error and returns a Usage error unless the answer is yes. The first Ctrl-C cancels it.
func (a *app) confirm(ctx context.Context, question string) error {
	fmt.Fprint(a.streams.Err, question+" [y/N] ")
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
		return failure.Annotate(context.Cause(ctx), "confirm", "")
	case line := <-answer:
		if s := strings.ToLower(strings.TrimSpace(line)); s == "y" || s == "yes" {
			return nil
		}
	}
	return failure.New(failure.Usage, "confirm", "", "not confirmed; nothing was changed")
}
