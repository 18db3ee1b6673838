package round

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// commandLine is the Driver that runs tisnap.
type commandLine struct{ *state }

// Backup implements Driver.
func (c *commandLine) Backup(ctx context.Context, _ *testbed.Testbed) (cluster.TS, error) {
	if err := c.tisnap(ctx, nil, append([]string{"backup", source.String(), "--name", BackupID}, c.cfg.BackupFlags...)...); err != nil {
		return 0, err
	}
	return c.readTS(ctx)
}

// Restore implements Driver.
func (c *commandLine) Restore(ctx context.Context, _ *testbed.Testbed) error {
	v := c.cfg.Volume
	args := []string{"restore", BackupID, "--to", target.String(), "--volume-type", v.Type, "--volume-iops", strconv.FormatInt(v.IOPS, 10), "--timeout", c.cfg.Timeout.String()}
	if v.ThroughputMiB > 0 {
		args = append(args, "--volume-throughput", strconv.FormatInt(v.ThroughputMiB, 10))
	}
	return c.tisnap(ctx, nil, append(args, c.cfg.RestoreFlags...)...)
}

// tisnap runs the program and turns a non-zero exit into an error.
func (s *state) tisnap(ctx context.Context, out io.Writer, args ...string) error {
	code, err := s.run(ctx, append(args, "--storage", Storage), out)
	if err != nil {
		return err
	}
	if code != 0 {
		return &ExitError{Command: args[0], Code: code}
	}
	return nil
}

// ExitError is a run of the program that ended with another code than 0.
type ExitError struct {
	Command string
	Code    int
}

// Error names the command and the code.
func (e *ExitError) Error() string { return fmt.Sprintf("tisnap %s ended with %d", e.Command, e.Code) }
