package ui

import "strings"

// color is an ANSI attribute.
type color string

const (
	bold   color = "1"
	faint  color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
)

// style is the terminal's capabilities.
type style struct{ color, unicode bool }

func (s style) paint(c color, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

func (s style) either(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

func (s style) tick() string  { return s.paint(green, s.either("✔", "+")) }
func (s style) cross() string { return s.paint(red, s.either("✘", "x")) }

func (s style) spinner(frame int) string {
	frames := []rune(s.either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", `|/-\`))
	return s.paint(cyan, string(frames[frame%len(frames)]))
}

func (s style) bar(filled int) string {
	return strings.Repeat(s.full(), filled) + strings.Repeat(s.empty(), barWidth-filled)
}

func (s style) full() string  { return s.either("█", "#") }
func (s style) empty() string { return s.either("░", ".") }

// shade colours the bar in an already laid-out line, so that widths are computed without escapes.
func (s style) shade(line string) string {
	start, end := strings.Index(line, s.full()), strings.LastIndex(line, s.full())
	if !s.color || !s.unicode || start < 0 {
		return line
	}
	end += len(s.full())
	return line[:start] + s.paint(cyan, line[start:end]) + line[end:]
}
