package command

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// operator is a flag for the generation of TiDB Operator that makes the clusters.
type operator int

// Set implements pflag.Value.
func (o *operator) Set(text string) error {
	switch text {
	case "1", "2":
		*o = operator(text[0] - '0')
		return nil
	}
	return errors.New("must be 1 or 2")
}

func (o *operator) String() string { return strconv.Itoa(int(*o)) }

// Type is the placeholder in help texts.
func (*operator) Type() string { return "1|2" }

// flag adds it to a command.
func (o *operator) flag(cmd *cobra.Command) {
	*o = 1
	cmd.Flags().Var(o, "operator", "generation of TiDB Operator that makes the clusters: 1 or 2")
	_ = cmd.RegisterFlagCompletionFunc("operator", cobra.FixedCompletions([]string{
		"1\tTidbCluster", "2\tCluster with its groups",
	}, cobra.ShellCompDirectiveNoFileComp))
}
