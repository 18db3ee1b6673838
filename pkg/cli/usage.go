package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
)

// usageError is an invalid command line.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &usageError{command: cmd.CommandPath(), err: failure.Wrap(err, failure.Usage, "", "")}
}

// flagError suggests a similar flag, if there is one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage(cmd, err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { // those of its parents are among them by now
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near := failure.Nearest(unknown.GetSpecifiedName(), names, 2)
	if len(near) == 0 {
		return usage(cmd, err)
	}
	return usage(cmd, failure.New(failure.Usage, "", "", "%w", err).
		WithHint("did you mean --%s? see: %s --help", strings.Join(near, " or --"), cmd.CommandPath()))
}

// knownCommand reports an unknown subcommand of a command that only has subcommands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	err := fmt.Errorf("unknown command %q", args[0])
	near := failure.Nearest(args[0], names, 2)
	if len(near) == 0 {
		return usage(cmd, err)
	}
	return usage(cmd, failure.New(failure.Usage, "", "", "%w", err).
		WithHint("did you mean %s? see: %s --help", strings.Join(near, " or "), cmd.CommandPath()))
}

// exactly is cobra.ExactArgs with an error that names the missing argument.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) < len(names) {
			return usage(cmd, fmt.Errorf("%s is missing", names[len(args)]))
		}
		return usage(cmd, fmt.Errorf("unexpected argument %q", args[len(names)]))
	}
}
