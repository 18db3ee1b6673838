package operator_test

import (
	"flag"
	"testing"

	"github.com/pingcap/log"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
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
