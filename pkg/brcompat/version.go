package brcompat

import (
	"fmt"
	"runtime"
)

// Version is the build's version information.
type Version struct {
	Version string // "dev" for a build without one
	Commit  string
}

// standsFor lists the br versions whose command lines are understood.
const standsFor = "6.5.8 to 8.5"

// String returns the output of --version.
func (v Version) String() string {
	return fmt.Sprintf("Release Version: tisnap %s\nGit Commit Hash: %s\nGo Version: %s\n"+
		"Stands for: br %s, for volume-snapshot (aws-ebs) backups and restores by TiDB Operator only\n",
		v.Version, orNone(v.Commit), runtime.Version(), standsFor)
}

func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}
