package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// Version is the build's version information.
type Version struct {
	Version string // "dev" for a build without one
	Commit  string
}

// versionDoc is the output of `tisnap version`.
type versionDoc struct {
	header
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	TiKV    string `json:"tikv"`
}

// supported are the TiKV versions whose prepare-snapshot service works (TiKV's release notes).
const supported = "6.5.8 and later 6.5, 7.5.1 and later, 8.1.0 and later"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Annotations: without("name"),
		Short:       "Print the version and the supported versions of TiKV",
		Example:     "  tisnap version\n  tisnap version -o json",
		Args:        exactly(),
		RunE: func(*cobra.Command, []string) error {
			return a.print(&versionDoc{
				header: newHeader("Version"), Version: a.version.Version, Commit: a.version.Commit,
				Go: runtime.Version(), TiKV: supported,
			})
		},
	}
}

func (d *versionDoc) table(w io.Writer, v view) error {
	_, err := fmt.Fprintf(w, "tisnap %s\nTiKV: %s\n", Version{Version: d.Version, Commit: d.Commit}.text(), d.TiKV)
	return err
}

// text is the version in one line.
func (v Version) text() string {
	commit := ""
	if v.Commit != "" {
		commit = " (" + v.Commit + ")"
	}
	return fmt.Sprintf("%s%s, %s", v.Version, commit, runtime.Version())
}
