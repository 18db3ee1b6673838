// Command cast runs a program and writes what it prints as an animated SVG, at the pace at which it was printed:
//
//	go run ./hack/cast docs/demo.svg bin/testbed demo
package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// line is what was printed, and when.
type line struct {
	text string
	at   time.Duration
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cast FILE PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

func run(file string, args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	start := time.Now()
	var lines []line
	s := bufio.NewScanner(out)
	for s.Scan() {
		lines = append(lines, line{s.Text(), time.Since(start)})
	}
	if s.Err() != nil {
		_ = cmd.Process.Kill() // its output is not read any more
	}
	if err := errors.Join(s.Err(), cmd.Wait()); err != nil {
		return err
	}
	if len(lines) == 0 {
		return errors.New("it printed nothing")
	}
	var b strings.Builder
	draw(&b, shorten(lines, longest))
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// The terminal, in characters and pixels.
const (
	rows, columns   = 26, 112
	rowPx, columnPx = 18, 8
	longest         = 1500 * time.Millisecond // pause without a line
)

// shorten makes no pause longer than most.
func shorten(lines []line, most time.Duration) []line {
	out := make([]line, len(lines))
	var before, at time.Duration
	for i, l := range lines {
		at += min(l.at-before, most)
		before, out[i] = l.at, line{l.text, at}
	}
	return out
}

// draw lets each line appear at its time, and scrolls as a terminal does. Without animations the last lines are shown.
func draw(w io.Writer, lines []line) {
	width, height := columns*columnPx+2*rowPx, (rows+2)*rowPx
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="what make demo prints">
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}
.c{fill:#88c0d0}.k{fill:#a3be8c}
@media not (prefers-reduced-motion){.l{animation:l .01s both}#s{animation:s %.2fs steps(1) both}}
@keyframes l{from{opacity:0}}
@keyframes s{`, width, height, end(lines).Seconds())
	for i, l := range lines {
		fmt.Fprintf(w, "%.2f%%{transform:translateY(%dpx)}", 100*l.at.Seconds()/end(lines).Seconds(), scroll(i+1))
	}
	fmt.Fprintf(w, "}\n</style>\n"+`<rect width="100%%" height="100%%" rx="8" fill="#242933"/>
<svg x="%d" y="%d" width="%d" height="%d"><g id="s" style="transform:translateY(%dpx)">`+"\n",
		rowPx, rowPx, columns*columnPx, rows*rowPx, scroll(len(lines)))
	for i, l := range lines {
		if strings.TrimSpace(l.text) != "" {
			fmt.Fprintf(w, `<text class="l%s" style="animation-delay:%.2fs" y="%d">%s</text>`+"\n",
				class(l.text), l.at.Seconds(), i*rowPx+13, html.EscapeString(cut(l.text)))
		}
	}
	fmt.Fprintln(w, "</g></svg></svg>")
}

func end(lines []line) time.Duration { return max(lines[len(lines)-1].at, time.Millisecond) }

// scroll is where the first line is when n are printed.
func scroll(n int) int { return -max(0, n-rows) * rowPx }

// class marks commands and what was checked.
func class(text string) string {
	switch {
	case strings.HasPrefix(text, "$ "), strings.HasPrefix(text, "» "):
		return " c"
	case strings.HasPrefix(strings.TrimSpace(text), "✔"):
		return " k"
	}
	return ""
}

func cut(text string) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}
