package brcompat

import (
	"fmt"
	"runtime"
)

// Version is what the build knows of itself.
type Version struct {
	Version string // "dev" for a build without one
	Commit  string
}

// standsFor are the versions of br whose command lines are understood.
const standsFor = "6.5.8 to 8.5"

// String is what --version prints.
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
