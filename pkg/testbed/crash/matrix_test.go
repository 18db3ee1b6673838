package crash_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/crash"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	if _, err := shipped.Program(); err != nil { // here, so that no test's time is that of the build
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit),
		// client-go and its pools keep these after Close, as its own tests tolerate.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
		goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).recreateStreamingClient"),
		goleak.IgnoreTopFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"),
	)
}

// When a resolve has released PD, its progress is removed: then only its journal shows that there is nothing to undo.
func TestMatrix_ResolveKilledAtItsVeryEnd_IsFinished(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	outcomes, err := crash.Play(ctx, crash.Config{
		Tisnap: path, Runs: []crash.Run{crash.Resolve}, Only: "resolve/check-pd-state: before the effect", Worlds: 1,
	})
	require.NoError(t, err)
	require.Len(t, outcomes, 1)
	assert.NoError(t, outcomes[0].Err, outcomes[0].Output)
}

// A sample of `make crash`. Every run is made once without a kill: a step that the matrix does not come to is an error.
func TestMatrix_Sample_NothingIsLostLeakedOrHeld(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	outcomes, err := crash.Play(ctx, crash.Config{Tisnap: path, Sample: 1, Seed: 7, Worlds: 6})
	require.NoError(t, err)
	assert.Len(t, outcomes, len(crash.Runs()))
	for _, o := range outcomes {
		assert.NoError(t, o.Err, "%s\n%s", o.Cell, o.Output)
	}
	for _, run := range crash.Runs() {
		assert.Contains(t, crash.Table(outcomes), string(run))
	}
}
