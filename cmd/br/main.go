// Command br stands in for PingCAP's br where TiDB Operator calls it for volume-snapshot backups and restores.
package main

import (
	"context"
	"os"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

// Set by the build: -ldflags "-X main.version=… -X main.commit=…".
var (
	version = "dev"
	commit  = ""
)

func main() {
	streams := brcompat.Streams{Out: os.Stdout, Err: os.Stderr}
	os.Exit(
		int(brcompat.Main(context.Background(), os.Args[1:], streams,
			brcompat.Version{Version: version, Commit: commit})))
}
