package marks

import (
	"strconv"
	"strings"
)

// releases has the TiKV releases whose Debug service and recovery mode report what the proof needs, with the first
// patch of each that supports backup by snapshots. Clusters of any other are flashed back as a whole.
var releases = map[string]int{
	"6.5": 8, "7.5": 1, "8.1": 0, "8.2": 0, "8.3": 0, "8.4": 0, "8.5": 0,
}

// Supported reports whether stores of this TiKV version ("8.5.0" or "v8.5.0", no pre-releases) can have marks.
func Supported(version string) bool {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return false
	}
	first, ok := releases[parts[0]+"."+parts[1]]
	patch, err := strconv.Atoi(parts[2])
	return ok && err == nil && patch >= first
}
