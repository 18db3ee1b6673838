package report

import (
	"strings"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxName is how many letters of a name are shown.
const maxName = 120

// Name is a name as a person may be shown it, whatever is in it: one line, without control characters, cut in its
// middle if it is long.
func Name(text string) string {
	text = failure.Line(text)
	if utf8.RuneCountInString(text) <= maxName {
		return text
	}
	runes := []rune(text)
	return string(runes[:maxName/2]) + "…" + string(runes[len(runes)-maxName/2+1:])
}

// Escape is a text as Markdown may hold it anywhere: it is shown as it is, and neither markup nor HTML begins in it.
func Escape(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "&lt;", ">", "&gt;", "&",
		"&amp;", "|", "\\|", "#", "\\#", "~", "\\~", "!", "\\!",
	).Replace(failure.Line(text))
}
