package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// choice is the value of a flag that takes one of several words; the first is the default, and also means "". It may
// be "" itself, for a flag that need not be given.
type choice[T ~string] struct {
	value *T
	words []string
}

// choose adds a choice flag whose words appear in help and shell completion.
func choose[T ~string](cmd *cobra.Command, flags *pflag.FlagSet, value *T, name string, words []string, usage string) {
	*value = T(words[0])
	c := choice[T]{value, words}
	flags.Var(c, name, usage+": "+strings.Join(c.named(), "|"))
	complete(cmd, name, c.named()...)
}

// named are the words that can be read.
func (c choice[T]) named() []string {
	if c.words[0] == "" {
		return c.words[1:]
	}
	return c.words
}

// optional are the words of a flag that need not be given.
func optional(words ...string) []string { return append([]string{""}, words...) }

func (c choice[T]) String() string {
	if c.value == nil {
		return "" // pflag compares with the zero value
	}
	return string(*c.value)
}

// Type is the placeholder in help texts.
func (choice[T]) Type() string { return "string" }

// Set takes a word in any case, as environment variables often have it.
func (c choice[T]) Set(word string) error {
	if word == "" {
		word = c.words[0]
	}
	for _, w := range c.words {
		if strings.EqualFold(w, word) {
			*c.value = T(w)
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(c.named(), ", "))
}
