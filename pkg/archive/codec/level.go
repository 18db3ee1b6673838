package codec

import (
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Level is how hard an Encoder tries; the zero value is none. Its text is that of --compression.
type Level string

// The levels, from the fastest to the smallest result. Auto is ZstdFastest for the blocks that a probe finds
// compressible.
const (
	None        Level = "none"
	S2          Level = "s2"
	Auto        Level = "auto"
	ZstdFastest Level = "zstd:fastest"
	ZstdDefault Level = "zstd:default"
	ZstdBetter  Level = "zstd:better"
	ZstdBest    Level = "zstd:best"
)

// Levels returns all levels, in the order of their constants.
func Levels() []Level {
	return []Level{None, S2, Auto, ZstdFastest, ZstdDefault, ZstdBetter, ZstdBest}
}

// ParseLevel returns the level with this text.
func ParseLevel(text string) (Level, error) {
	if level := Level(text); slices.Contains(Levels(), level) {
		return level, nil
	}
	var names []string
	for _, level := range Levels() {
		names = append(names, string(level))
	}
	return None, failure.New(failure.Usage, "choose compression", "", "%q is none of %s", text,
		strings.Join(names, ", "))
}

// zstd returns klauspost/compress' name for the level.
func (l Level) zstd() zstd.EncoderLevel {
	switch l {
	case ZstdDefault:
		return zstd.SpeedDefault
	case ZstdBetter:
		return zstd.SpeedBetterCompression
	case ZstdBest:
		return zstd.SpeedBestCompression
	default:
		return zstd.SpeedFastest
	}
}
