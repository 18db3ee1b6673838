package brcompat

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagTable returns the Markdown table of all commands' flags, for docs/br.md.
func FlagTable() string {
	var b strings.Builder
	b.WriteString("| command | flag | default | meaning |\n|---|---|---|---|\n")
	root := (&app{}).root()
	flagRows(&b, "all", root.PersistentFlags())
	for _, parent := range root.Commands() {
		for _, cmd := range parent.Commands() {
			if !cmd.Hidden {
				flagRows(&b, strings.TrimPrefix(cmd.CommandPath(), "br "), cmd.LocalNonPersistentFlags())
			}
		}
	}
	return b.String()
}

func flagRows(b *strings.Builder, command string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		fallback := f.DefValue
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		_, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", command, name, fallback, strings.ReplaceAll(usage, "|", `\|`))
	})
}

// RefusedCommands lists the commands of br that are refused, for docs/br.md.
func RefusedCommands() []string {
	var names []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.DisableFlagParsing {
				names = append(names, strings.TrimPrefix(c.CommandPath(), "br "))
			}
			visit(c)
		}
	}
	visit((&app{}).root())
	return names
}
