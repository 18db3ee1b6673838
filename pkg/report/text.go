package report

import (
	"strings"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxName is how many characters of a name are shown.
const maxName = 120

// Name makes any name safe to show: one line, without control characters, with the middle of a long one cut out.
func Name(text string) string {
	text = failure.Line(text)
	if utf8.RuneCountInString(text) <= maxName {
		return text
	}
	runes := []rune(text)
	return string(runes[:maxName/2]) + "…" + string(runes[len(runes)-maxName/2+1:])
}

// Escape quotes a text for Markdown: it is shown as it is, and contains neither markup nor HTML.
func Escape(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "&lt;", ">", "&gt;", "&",
		"&amp;", "|", "\\|", "#", "\\#", "~", "\\~", "!", "\\!",
	).Replace(failure.Line(text))
}
