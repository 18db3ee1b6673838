package transcripts

import (
	"regexp"
	"slices"
	"strings"
)

// command is one command of a transcript with what it prints.
type command struct {
	line   string // without the prompt; a continued one as it is written
	output []string
}

// args returns the command line's words, without its comment.
func (c command) args() []string {
	line, _, _ := strings.Cut(strings.ReplaceAll(c.line, "\\\n", " "), " #")
	return strings.Fields(line)
}

// parse reads a block. It returns nil if the block shows no command with a prompt.
func parse(block string) []command {
	var out []command
	continued := false
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		typed, isPrompt := strings.CutPrefix(line, "$ ")
		switch {
		case isPrompt:
			out = append(out, command{line: typed})
		case len(out) == 0:
			return nil
		case continued:
			out[len(out)-1].line += "\n" + line
		default:
			last := &out[len(out)-1]
			last.output = append(last.output, line)
		}
		continued = (isPrompt || continued) && strings.HasSuffix(line, "\\")
	}
	return out
}

// format writes a block.
func format(commands []command) string {
	var b strings.Builder
	for _, c := range commands {
		b.WriteString("$ " + c.line + "\n")
		for _, line := range c.output {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// variable is what differs between two runs, and what stands for it.
var variable = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?`), "TIME"},
	{regexp.MustCompile(`\d{8}t\d{6}-[0-9a-f]{8}`), "RUN"},
	{regexp.MustCompile(`pid \d+ on host [\w.-]+`), "PROCESS"},
	{regexp.MustCompile(`\b(snap|vol|i)-[0-9a-f]{17}`), "$1-ID"},
	{regexp.MustCompile(`\b\d{18}\b`), "TS"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)\b(\d+s)?`), "TOOK"},
	{regexp.MustCompile(`<?\b\d+(\.\d+)? ?([kKMGT]i?B|%|regions\b)`), "N $2"},
	{regexp.MustCompile(`\bstore \d+ storage\.`), "store N storage."},
	{regexp.MustCompile(`─+`), "─"},
	{regexp.MustCompile(`  +`), " "},
}

// same returns a line without what differs between two runs.
func same(line string) string {
	for _, v := range variable {
		line = v.pattern.ReplaceAllString(line, v.instead)
	}
	return strings.TrimSpace(line)
}

// left is a line that stands for any number of lines.
const left = "…"

// fit returns what the page shows, with the lines that were printed in place of its own. It returns false if they differ
// by more than what is different between two runs.
func fit(shown, printed []string) ([]string, bool) {
	var out []string
	at, anywhere := 0, false
	for i, line := range shown {
		if line == left {
			out, anywhere = append(out, line), true
			continue
		}
		found := slices.IndexFunc(printed[at:], func(p string) bool { return same(p) == same(line) })
		if last := i == len(shown)-1; found >= 0 && anywhere && last { // nothing may follow it
			found = len(printed) - 1 - at
		}
		if found < 0 || found > 0 && !anywhere || same(printed[at+found]) != same(line) {
			return nil, false
		}
		out, at, anywhere = append(out, printed[at+found]), at+found+1, false
	}
	return out, anywhere || at == len(printed)
}
