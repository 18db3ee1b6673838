// Command tisnap-template writes JSON through a Go template: tisnap -o go-template=… runs it. It is apart, as tisnap would
// be twice as large with templates in it.
package main

import (
	"fmt"
	"os"

	"github.com/tisnap/tisnap/pkg/gotemplate"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes "check TEMPLATE", or "write TEMPLATE" with a JSON document on standard input.
func run(args []string) error {
	if len(args) != 2 || args[0] != "check" && args[0] != "write" {
		return fmt.Errorf("usage: tisnap-template check|write TEMPLATE (write reads JSON from standard input)")
	}
	parsed, err := gotemplate.Parse(args[1])
	if err != nil || args[0] == "check" {
		return err
	}
	return parsed.Execute(os.Stdout, os.Stdin)
}
