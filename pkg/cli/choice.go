package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is the value of a flag that takes one of several words; the first is the default, and also means "".
type choice[T ~string] struct {
	value *T
	words []string
}

// choose adds a choice flag whose words appear in help and shell completion.
func choose[T ~string](cmd *cobra.Command, flags *pflag.FlagSet, value *T, name string, words []string, usage string) {
	*value = T(words[0])
	flags.Var(choice[T]{value, words}, name, usage+": "+strings.Join(words, "|"))
	complete(cmd, name, words...)
}

func (c choice[T]) String() string {
	if c.value == nil {
		return "" // pflag compares with the zero value
	}
	return string(*c.value)
}

// Type is the placeholder in help texts.
func (choice[T]) Type() string { return "string" }

func (c choice[T]) Set(word string) error {
	if word == "" {
		word = c.words[0]
	}
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("want one of %s", strings.Join(c.words, ", "))
	}
	*c.value = T(word)
	return nil
}
