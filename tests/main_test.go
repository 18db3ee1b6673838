package tests

import (
	"context"
	"flag"
	"io"
	"testing"

	"github.com/pingcap/log"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

var (
	rounds   = flag.Int("rounds", 2, "how many rounds with random seeds the soak makes")
	seedFlag = flag.Int64("seed", 0, "seed of the soak's first round; 0 takes the clock's")
)

func TestMain(m *testing.M) {
	flag.Parse()
	awsenv.MustIsolate()
	// client-go of the workload logs through this global to stdout.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit),
		// client-go and its pools keep these after Close, as its own tests tolerate.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
		goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).recreateStreamingClient"),
		goleak.IgnoreTopFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"),
	)
}

// inProcess runs the command line in this process, so that the race detector sees it. Flags define where the
// testbed is, as the environment belongs to all tests.
func inProcess(t *testing.T, stderr io.Writer) func(bed *testbed.Testbed) round.Tisnap {
	return func(bed *testbed.Testbed) round.Tisnap {
		return func(ctx context.Context, args []string, stdout io.Writer) (int, error) {
			if stdout == nil {
				stdout = stderr
			}
			return int(tisnap(ctx, bed, stdout, stderr, args...)), nil
		}
	}
}

// tisnap runs one command against the testbed.
func tisnap(ctx context.Context, bed *testbed.Testbed, stdout, stderr io.Writer, args ...string) cli.ExitCode {
	return cli.Run(ctx, append(args, against(bed)...), cli.Streams{Out: stdout, Err: stderr}, cli.Version{Version: "test"})
}

// against are the flags of the testbed.
func against(bed *testbed.Testbed) []string {
	return []string{
		"--endpoint-url", bed.AWS(), "--region", bed.EC2.Region(), "--kubeconfig", bed.Kubeconfig(), "--progress", "plain",
	}
}
