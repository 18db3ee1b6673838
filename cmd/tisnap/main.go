// Command tisnap backs up and restores TiDB clusters on EKS by EBS volume snapshots.
package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/tisnap/tisnap/pkg/cli"
)

// Set by the build: -ldflags "-X main.version=… -X main.commit=…".
var (
	version = "dev"
	commit  = ""
)

func main() {
	streams := cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: filepath.Base(os.Args[0]), LimitMemory: limitMemory,
	}
	os.Exit(int(cli.Main(context.Background(), os.Args[1:], streams, cli.Version{Version: version, Commit: commit})))
}

// limitMemory limits the memory, unless the user did so by GOMEMLIMIT.
func limitMemory(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}
