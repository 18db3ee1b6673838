// Command man writes the man pages of tisnap, one for each command: go run ./hack/man FOLDER.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/tisnap/tisnap/pkg/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes the pages into a folder, which it makes. Their date is SOURCE_DATE_EPOCH's, otherwise today's.
func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	return doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Path: folder, CommandSeparator: "-", Header: &doc.GenManHeader{Section: "1", Source: "tisnap"},
	})
}
