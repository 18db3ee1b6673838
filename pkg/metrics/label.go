package metrics

import (
	"strings"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxLabel is the size of a label's value, in bytes.
const maxLabel = 128

// Label makes a name from a storage a valid label value: UTF-8, one line without control characters, at most 128 bytes.
func Label(value string) string {
	value = failure.Line(strings.ToValidUTF8(value, "\uFFFD"))
	if len(value) <= maxLabel {
		return value
	}
	cut := maxLabel - len("…")
	for !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut] + "…"
}
