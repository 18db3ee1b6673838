package marks

import (
	"strconv"
	"strings"
)

// releases is the TiKV releases whose Debug service and recovery mode report what the proof rests on, with the first
// patch of each that can be backed up by snapshots. One that is not here is flashed back as a whole.
var releases = map[string]int{
	"6.5": 8, "7.5": 1, "8.1": 0, "8.2": 0, "8.3": 0, "8.4": 0, "8.5": 0,
}

// Supported reports whether marks of stores of this TiKV version count: "8.5.0" or "v8.5.0", no pre-releases.
func Supported(version string) bool {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return false
	}
	first, ok := releases[parts[0]+"."+parts[1]]
	patch, err := strconv.Atoi(parts[2])
	return ok && err == nil && patch >= first
}
