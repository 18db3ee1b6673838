package failure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxRemote is how many bytes of a text from another system a message holds.
const MaxRemote = 2000

// Line is a text from another system (EC2, PD, TiKV, object storage, a pod's log) as a message, the journal and the log
// may hold it: one line, at most MaxRemote bytes, without control characters, which could clear a terminal or begin a
// forged line of a log, and without secrets: see Redact. Line breaks and tabs become spaces. What is cut is said.
func Line(text string) string {
	if strings.IndexFunc(text, unprintable) >= 0 || !utf8.ValidString(text) {
		text = strings.ToValidUTF8(strings.Map(oneLine, text), "\uFFFD")
	}
	text = Redact(text) // not before: a control character could divide what it looks for
	if len(text) <= MaxRemote {
		return text
	}
	end := MaxRemote
	for !utf8.RuneStart(text[end]) {
		end++
	}
	if end == len(text) {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}

// oneLine is a rune of a line: a blank for a line break or a tab, and nothing for what cannot be printed.
func oneLine(r rune) rune {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return ' '
	case unprintable(r):
		return -1
	}
	return r
}

// Lines is Line of a text of several lines: it keeps its line breaks and tabs, and is not cut.
func Lines(text string) string {
	return Redact(strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unprintable(r) {
			return -1
		}
		return r
	}, text), "\uFFFD"))
}

// unprintable reports control characters, and those that change the direction of what follows.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Remote is err with a text that Line has cleaned; errors.Is and errors.As see err as it is. Remote of nil is nil.
// Every adapter passes what its system answers through it.
func Remote(err error) error {
	if err == nil || Line(err.Error()) == err.Error() {
		return err
	}
	return &remoteError{err: err}
}

// remoteError is an error whose text came from another system.
type remoteError struct{ err error }

func (e *remoteError) Error() string { return Line(e.err.Error()) }
func (e *remoteError) Unwrap() error { return e.err }
