package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
)

// envPrefix starts the name of each variable that tisnap reads. Those that start with testPrefix are for its tests.
const (
	envPrefix  = "TISNAP_"
	testPrefix = envPrefix + "TEST_"
)

// injected matches the variables that the kubelet sets in each pod for a Service whose name starts with tisnap.
var injected = regexp.MustCompile(`^TISNAP_([A-Z0-9_]+_)?` +
	`(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// fromEnvironment is the annotation of a flag whose value came from the environment.
const fromEnvironment = "from-environment"

// fromEnv sets flags absent from the command line from TISNAP_FLAG_NAME, and refuses variables that are no command's.
func fromEnv(cmd *cobra.Command) error {
	if err := checkEnv(cmd.Root(), os.Environ()); err != nil {
		return err
	}
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		value, ok := os.LookupEnv(name)
		if f.Changed || !ok || err != nil {
			return
		}
		if setErr := cmd.Flags().Set(f.Name, value); setErr != nil {
			err = fmt.Errorf("%s: %w", name, setErr)
			return
		}
		err = cmd.Flags().SetAnnotation(f.Name, fromEnvironment, []string{name})
	})
	return err
}

// checkEnv refuses a misspelled variable: what it was meant to set would silently keep its default.
func checkEnv(root *cobra.Command, environ []string) error {
	var known []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, testPrefix) || injected.MatchString(name) {
			continue
		}
		if known == nil {
			known = append(envNames(root), signKeyVariable, sqlPasswordVariable)
		}
		if slices.Contains(known, name) {
			continue
		}
		err := failure.New(failure.Usage, "", "", "environment variable %s sets no flag of tisnap", name)
		// the prefix, which all share, would make every name near
		near := failure.Nearest(strings.TrimPrefix(name, envPrefix), trimPrefixes(known), 2)
		if len(near) == 0 {
			return err.WithHint("unset it; each flag is a variable: --storage is TISNAP_STORAGE")
		}
		return err.WithHint("did you mean %s%s? else unset it", envPrefix, strings.Join(near, " or "+envPrefix))
	}
	return nil
}

func trimPrefixes(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.TrimPrefix(name, envPrefix)
	}
	return out
}

// envNames returns the variables of the flags of a command and those below it: the environment of a Job has the
// settings of all its commands.
func envNames(cmd *cobra.Command) []string {
	var out []string
	add := func(f *pflag.Flag) { out = append(out, envName(f.Name)) }
	cmd.PersistentFlags().VisitAll(add)
	cmd.LocalNonPersistentFlags().VisitAll(add)
	for _, child := range cmd.Commands() {
		out = append(out, envNames(child)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// envName returns a flag's environment variable.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// typed reports whether a flag is on the command line. One that came from the environment is not: that is for all
// commands.
func typed(cmd *cobra.Command, flag string) bool {
	f := cmd.Flag(flag)
	return f.Changed && f.Annotations[fromEnvironment] == nil
}

// dryByEnv warns of a dry run that the environment asks for; "" for one that the command line asks for, or none.
// Without it, a setting left in a ConfigMap after a drill makes each night a success without a backup.
func dryByEnv(cmd *cobra.Command) string {
	f := cmd.Flag("dry-run")
	if f == nil || f.Annotations[fromEnvironment] == nil || f.Value.String() != "true" {
		return ""
	}
	return fmt.Sprintf("%s makes this a dry run: no %s is done", envName(f.Name), operationOf(cmd))
}
