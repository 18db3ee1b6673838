// Command testbed serves AWS, EKS and TiDB on loopback for the demo, the soak and by hand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/testbed/command"
)

func main() {
	// client-go of the workload logs through this global to stdout.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil { // also if it was interrupted: what was asked for was not done
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}
