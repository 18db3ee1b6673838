package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestExitCode_EachKindAndSignal(t *testing.T) {
	t.Parallel()
	of := func(k failure.Kind) error { return failure.New(k, "op", "target", "boom") }
	cases := []struct {
		name  string
		cause error // of the context's end; nil: it continues
		err   error
		want  ExitCode
	}{
		{"success", nil, nil, 0},
		{"success in spite of a signal", errInterrupted, nil, 0},
		{"plain", nil, errors.New("x"), 1},
		{"unknown", nil, of(failure.Unknown), 1},
		{"usage", nil, of(failure.Usage), 2},
		{"partial", nil, of(failure.Partial), 3},
		{"not found", nil, of(failure.NotFound), 4},
		{"unready", nil, of(failure.Unready), 5},
		{"conflict", nil, of(failure.Conflict), 6},
		{"denied", nil, of(failure.Denied), 7},
		{"limited", nil, of(failure.Limited), 8},
		{"deadline", nil, context.DeadlineExceeded, 8},
		{"held", nil, of(failure.Held), 9},
		{"corrupt", nil, of(failure.Corrupt), 10},
		{"a kind from the future", nil, of(failure.Kind(99)), 1},
		{"interrupted", errInterrupted, of(failure.Limited), 130},
		{"terminated", errTerminated, context.Canceled, 143},
		{"ended for another reason", errors.New("lock lost"), of(failure.Conflict), 6},
		{"held beats interrupt", errInterrupted, errors.Join(context.Canceled, of(failure.Held)), 9},
		{"held beats terminate", errTerminated, fmt.Errorf("a: %w", of(failure.Held)), 9},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cause != nil {
				cancel(c.cause)
			}
			require.Equal(t, c.want, exitCode(ctx, c.err))
		})
	}
}

func TestExitCodes_EachKindHasOneOfItsOwn(t *testing.T) {
	t.Parallel()
	kinds, codes := map[failure.Kind]bool{}, map[ExitCode]bool{0: true, ExitInterrupted: true, ExitTerminated: true}
	for _, row := range exitCodes {
		require.False(t, kinds[row.kind], row.kind)
		require.False(t, codes[row.code], row.code)
		kinds[row.kind], codes[row.code] = true, true
	}
	for k := failure.Unknown; k <= failure.Corrupt; k++ {
		require.True(t, kinds[k], "%s has no exit code", k)
	}
}

// run runs the command line with nothing around it.
func run(t *testing.T, args ...string) (code ExitCode, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), args, Streams{Out: &stdout, Err: &stderr}, Version{Version: "v1.2.3", Commit: "abc"})
	return code, stdout.String(), stderr.String()
}

func TestRun_WrongCommandLine_EndsWithTwo(t *testing.T) {
	t.Parallel()
	cases := []struct {
		args string
		want string
	}{
		{"nonsense", "nonsense"},
		{"--nonsense", "nonsense"},
		{"hold tidb/prod", `unknown command "tidb/prod"`},
		{"runs lst", "did you mean list?"},
		{"archive init --passphrase-file f", "did you mean --repo-passphrase-file? "},
		{"backup", "CLUSTER is missing"},
		{"backup a b", `unexpected argument "b"`},
		{"restore", "BACKUP is missing"},
		{"restore b", "--to CLUSTER is missing"},
		{"restore b --to c --volume-iops -1", "must not be negative"},
		{"restore b --to c --volume-size -1", "must not be negative"},
		{"restore b --to c --volume-throughput -1", "must not be negative"},
		{"restore b --to c --timeout 1ms", "want at least 1s"},
		{"restore b --to c --timeout soon", "soon"},
		{"restore b --to c --volume-iops many", "many"},
		{"describe", "is missing"},
		{"list extra", `unexpected argument "extra"`},
		{"list", "--storage is missing"},
		{"list --storage nonsense://x", "nonsense"},
		{"version -o xml", "--output"},
		{"version --progress loud", "loud"},
		{"version --log-format xml", "--log-format"},
		{"version --cert c.pem", "--cert and --key go together"},
		{"version --key k.pem", "--cert and --key go together"},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, strings.Fields(c.args)...)
			require.EqualValues(t, 2, code, errOut)
			require.Empty(t, out, "results only")
			require.Contains(t, errOut, "error: ")
			require.Contains(t, errOut, c.want)
			require.Contains(t, errOut, "hint: ", "the hint is printed")
		})
	}
}

func TestRun_Machine_GetsOneLineOfJSON(t *testing.T) {
	t.Parallel()
	code, out, errOut := run(t, "list", "-o", "json")
	require.EqualValues(t, 2, code)
	require.Empty(t, out)
	require.JSONEq(t, `{"type":"exit","code":2,"kind":"usage","message":"--storage is missing",
		"hint":"set --storage s3://bucket/prefix or TISNAP_STORAGE"}`, errOut)
}

func TestRun_Version_EachOutput(t *testing.T) {
	t.Parallel()
	code, out, _ := run(t, "version")
	require.Zero(t, code)
	require.Contains(t, out, "tisnap v1.2.3 (abc)")
	_, out, _ = run(t, "version", "-o", "json")
	require.Contains(t, out, `"apiVersion": "tisnap.io/v1"`)
	require.Contains(t, out, `"kind": "Version"`)
	_, out, _ = run(t, "version", "-o", "yaml")
	require.Contains(t, out, "version: v1.2.3\n")
}

func TestRun_Help_ShowsExitStatus(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"backup", "restore"} {
		code, out, errOut := run(t, command, "--help")
		require.Zero(t, code, errOut)
		for _, row := range exitCodes {
			require.Contains(t, out, fmt.Sprintf("%3d  %s", row.code, row.meaning))
		}
	}
}

// The environment belongs to the whole process, so this one is not parallel.
func TestRun_Environment_IsBelowFlags(t *testing.T) {
	t.Setenv("TISNAP_OUTPUT", "json")
	t.Setenv("TISNAP_STORAGE", "nonsense://from-env")
	_, out, _ := run(t, "version")
	require.Contains(t, out, `"kind": "Version"`)
	_, out, _ = run(t, "version", "--output", "table")
	require.NotContains(t, out, "{")
	code, _, errOut := run(t, "list")
	require.EqualValues(t, 2, code)
	require.Contains(t, errOut, "nonsense")
	t.Setenv("TISNAP_TIMEOUT", "soon")
	code, _, errOut = run(t, "restore", "b", "--to", "c")
	require.EqualValues(t, 2, code)
	require.Contains(t, errOut, "TISNAP_TIMEOUT")
}

// broken is an output that is full.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A run that Ctrl-C stopped fails with whatever it was doing; scripts learn that it was interrupted.
func TestPrintError_InterruptedRun_IsOfThatKind(t *testing.T) {
	t.Parallel()
	for code, want := range map[ExitCode]string{ExitInterrupted: "interrupted", ExitTerminated: "interrupted", 8: "limited"} {
		var out bytes.Buffer
		a := &app{streams: Streams{Err: &out}, global: globalFlags{output: "json"}}
		a.printError(failure.New(failure.Limited, "wait", "", "no time left"), code)
		require.Contains(t, out.String(), `"kind":"`+want+`"`)
	}
}
