package metrics

import (
	"strings"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxLabel is how many bytes of a name a label's value has.
const maxLabel = 128

// Label is a name from a storage as the value of a label: valid UTF-8, one line without control characters, at most
// 128 bytes.
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
