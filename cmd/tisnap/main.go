// Command tisnap backs up and restores TiDB clusters on EKS by EBS volume snapshots.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/tisnap/tisnap/pkg/cli"
)

// Set by the build: -ldflags "-X main.version=… -X main.commit=…".
var (
	version = "dev"
	commit  = ""
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: filepath.Base(os.Args[0])}
	os.Exit(int(cli.Main(context.Background(), os.Args[1:], streams, cli.Version{Version: version, Commit: commit})))
}
