package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// cobra keeps what is registered for the shell, and with it all commands, for the life of the process: for the shell
// alone it is registered.

// completes reports whether the shell asks what may come next.
func (a *app) completes() bool {
	return len(a.args) > 0 && (a.args[0] == cobra.ShellCompRequestCmd || a.args[0] == cobra.ShellCompNoDescRequestCmd)
}

// offer has the shell complete a flag's value.
func (a *app) offer(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if a.completes() {
		_ = cmd.RegisterFlagCompletionFunc(flag, values) // fails only for an unknown flag, which a test would catch
	}
}

// fixedValues is the annotation of a flag with its fixed values.
const fixedValues = "tisnap.io/values"

// complete has the shell complete a flag's fixed values.
func complete(cmd *cobra.Command, flag string, fixed ...string) {
	f := cmd.Flag(flag)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[fixedValues] = fixed
}

// offerValues registers the fixed values of all flags of a command and those below it.
func offerValues(cmd *cobra.Command) {
	each := func(f *pflag.Flag) {
		if fixed := f.Annotations[fixedValues]; fixed != nil {
			offered := cobra.FixedCompletions(fixed, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(f.Name, offered) // a flag of several commands is registered by the first
		}
	}
	cmd.Flags().VisitAll(each)
	cmd.PersistentFlags().VisitAll(each)
	for _, sub := range cmd.Commands() {
		offerValues(sub)
	}
}
