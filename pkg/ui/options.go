package ui

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Mode is a way to show progress.
type Mode string

// The modes.
const (
	Auto  Mode = "auto"  // TTY on a capable terminal, else Plain
	TTY   Mode = "tty"   // one live line, repainted ten times a second
	Plain Mode = "plain" // a log line per change and every 30 s
	JSON  Mode = "json"  // one event per line
	None  Mode = "none"  // nothing
)

// Modes lists the modes by name, the default first.
func Modes() []string {
	return []string{string(Auto), string(TTY), string(Plain), string(JSON), string(None)}
}

// Options are where and how progress is shown. The zero value depends on standard error and the environment.
type Options struct {
	Mode Mode      // "" is Auto
	Out  io.Writer // nil is standard error
	// IsTerminal reports whether Out is a terminal; nil asks the system.
	IsTerminal func() bool
	// Width returns the terminal's columns, at each repaint; nil asks the system, 0 or less means unknown.
	Width func() int
	// Env reads the environment: NO_COLOR, TERM, CI, and LC_ALL, LC_CTYPE, LANG; nil is os.Getenv.
	Env func(string) string
	// Patience is how long Close waits for a blocked reader; 0 is 10 s, and forever on a terminal, which the user may
	// have paused.
	Patience time.Duration
}

// fallbackWidth is used while the terminal does not report its own.
const fallbackWidth = 80

func (o Options) complete() Options {
	if o.Out == nil {
		o.Out = os.Stderr
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	file, isFile := o.Out.(*os.File)
	if o.IsTerminal == nil {
		o.IsTerminal = func() bool { return isFile && term.IsTerminal(int(file.Fd())) }
	}
	if o.Width == nil {
		o.Width = func() int {
			if !isFile {
				return 0
			}
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 0
			}
			return width
		}
	}
	if o.Patience == 0 && !o.IsTerminal() {
		o.Patience = 10 * time.Second
	}
	o.Mode = o.resolve()
	return o
}

// resolve picks the mode. A dumb terminal cannot repaint a line, so it outranks even an explicit TTY.
func (o Options) resolve() Mode {
	dumb := o.Env("TERM") == "dumb"
	switch o.Mode {
	case Plain, JSON, None:
		return o.Mode
	case TTY:
		if dumb {
			return Plain
		}
		return TTY
	case Auto:
	}
	if dumb || isSet(o.Env("CI")) || !o.IsTerminal() {
		return Plain
	}
	return TTY
}

func (o Options) style() style {
	s := style{color: o.Env("NO_COLOR") == "", unicode: true}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := o.Env(name); v != "" {
			// Only an explicit locale rules out UTF-8: containers usually have none.
			s.unicode = v != "C" && v != "POSIX"
			break
		}
	}
	return s
}

func isSet(v string) bool { return v != "" && v != "0" && v != "false" }
