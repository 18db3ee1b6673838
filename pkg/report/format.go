package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/tisnap/tisnap/pkg/phase"
)

// absent stands for what is unknown or did not happen.
const absent = "-"

// Duration prints seconds in readable form: "850ms", "12.3s", "1m02.4s", "1h02m03s". A zero fraction is omitted; above
// zero but below a millisecond is "<1ms".
func Duration(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || seconds < 0:
		return absent
	case seconds == 0:
		return "0s"
	case seconds < 0.0005:
		return "<1ms"
	case seconds < 0.9995:
		return fmt.Sprintf("%.0fms", seconds*1000)
	}
	tenths := int64(math.Round(seconds * 10))
	if tenths >= 36000 {
		whole := int64(math.Round(seconds))
		return fmt.Sprintf("%dh%02dm%02ds", whole/3600, whole/60%60, whole%60)
	}
	fraction := ""
	if tenths%10 != 0 {
		fraction = fmt.Sprintf(".%d", tenths%10)
	}
	if tenths < 600 {
		return fmt.Sprintf("%d%ss", tenths/10, fraction)
	}
	return fmt.Sprintf("%dm%02d%ss", tenths/600, tenths/10%60, fraction)
}

// Roughly prints an estimate: "<1s", "12s", "18m22s", and from an hour on without seconds, "2h49m".
func Roughly(seconds float64) string {
	switch whole := math.Round(seconds); {
	case seconds > 0 && whole == 0:
		return "<1s"
	case whole >= 3600:
		minutes := int64(math.Round(seconds / 60))
		return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
	default:
		return Duration(whole)
	}
}

// Range prints an estimate's bounds.
func Range(low, high float64) string {
	if Roughly(low) == Roughly(high) {
		return Roughly(low)
	}
	return Roughly(low) + " - " + Roughly(high)
}

// Percent prints a share; a small one that rounds to zero is "<0.1%".
func Percent(share float64) string {
	switch {
	case share <= 0:
		return "0%"
	case share < 0.0005:
		return "<0.1%"
	}
	return strings.Replace(fmt.Sprintf("%.1f%%", share*100), ".0%", "%", 1)
}

// Bytes prints a size in powers of two, as EBS counts: "850 MiB", "1.2 TiB".
func Bytes(n int64) string {
	if n <= 0 {
		return absent
	}
	return strings.Replace(humanize.IBytes(uint64(n)), ".0 ", " ", 1)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func orAbsent(s string) string {
	if s == "" {
		return absent
	}
	return Name(s)
}

// note is the remark on a phase that did not simply succeed.
func note(o phase.Outcome) string {
	if o == phase.Done || o == "" {
		return ""
	}
	return string(o)
}
