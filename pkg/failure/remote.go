package failure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxRemote bounds the bytes of another system's text in a message.
const MaxRemote = 2000

// Line makes another system's text (EC2, PD, TiKV, object storage, a pod's log) safe for a message, the journal and the
// log: one line of at most MaxRemote bytes, without control characters, which could clear a terminal or forge a log
// line, and without secrets: see Redact. Line breaks and tabs become spaces. Truncation is marked.
func Line(text string) string {
	if strings.IndexFunc(text, unprintable) >= 0 || !utf8.ValidString(text) {
		text = strings.ToValidUTF8(strings.Map(oneLine, text), "\uFFFD")
	}
	text = Redact(text) // not earlier: a control character could split a secret
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

// oneLine maps a rune: line breaks and tabs to a space, unprintable ones to nothing.
func oneLine(r rune) rune {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return ' '
	case unprintable(r):
		return -1
	}
	return r
}

// Lines is Line for multi-line text: it keeps line breaks and tabs, and does not truncate.
func Lines(text string) string {
	return Redact(strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unprintable(r) {
			return -1
		}
		return r
	}, text), "\uFFFD"))
}

// unprintable reports control characters, and those that change the text direction.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Remote wraps err with a text cleaned by Line; errors.Is and errors.As see err itself. Remote of nil is nil. Every
// adapter passes its system's errors through it.
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
