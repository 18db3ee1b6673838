package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tisnap/tisnap/pkg/failure"
)

// deliver writes the document in the requested format to stdout, to --out, or to a file that the browser opens.
func (a *app) deliver(ctx context.Context, f reportFlags, doc reportDocument) error {
	if !f.open && f.out == "" {
		return a.writeReport(f, doc)
	}
	file, err := reportFile(f.out)
	if err != nil {
		return err
	}
	to := *a
	to.streams.Out = file
	err = to.writeReport(f, doc)
	if closeErr := file.Close(); err == nil {
		err = failure.Wrap(closeErr, failure.Unknown, "write report", file.Name())
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.streams.Err, "the report is in %s\n", file.Name())
	if f.open && ctx.Err() == nil { // otherwise the report is written, and the browser is not waited for
		if err := openBrowser(file.Name()); err != nil {
			return failure.New(failure.Unready, "open browser", file.Name(), "%w", err).
				WithHint("open the file yourself: %s", file.Name())
		}
	}
	return nil
}

// openBrowser opens the file with the first of these Linux and macOS programs that exists.
func openBrowser(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for _, program := range []string{"xdg-open", "x-www-browser", "www-browser", "wslview", "open"} {
		if program, err = exec.LookPath(program); err == nil {
			//nolint:gosec,noctx // fixed names; may outlive this process
			return exec.Command(program, "file://"+path).Run()
		}
	}
	return err
}

// reportFile creates the file that the user named, or a temporary one. Other users cannot read it.
func reportFile(name string) (*os.File, error) {
	if name == "" {
		file, err := os.CreateTemp("", "tisnap-report-*.html")
		return file, failure.Wrap(err, failure.Unknown, "write report", os.TempDir())
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return file, failure.Wrap(err, failure.Usage, "open --out", name)
}

func (a *app) writeReport(f reportFlags, doc reportDocument) error {
	var text string
	var err error
	switch f.format {
	case "markdown":
		text, err = doc.markdown()
	case "html":
		text, err = doc.html()
	case "json":
		to := *a
		if to.global.output == "table" {
			to.global.output = "json"
		}
		return to.print(doc)
	default:
		return failure.Annotate(write(a.streams.Out, "table", doc, a.view()), "print result", "")
	}
	if err == nil {
		_, err = io.WriteString(a.streams.Out, text)
	}
	return failure.Annotate(err, "print result", "")
}
