package docs

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// CommandLines returns the command lines of a program in a page: in inline code, at the beginning of a line of a block,
// and, of tisnap, as the args of a container. What follows a comment, a pipe, a redirection or an "and" is cut off.
func CommandLines(page, program string) []string {
	page = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(page, "")
	end := regexp.MustCompile(`\s+(#|\||>|2>|&|;).*$`)
	name := `((?:kubectl )?` + regexp.QuoteMeta(program)
	inline := regexp.MustCompile("`" + name + " [^`]+)`")
	start := regexp.MustCompile(`^(?:\$ )?` + name + ` .+)$`)
	args := regexp.MustCompile(`^(?:- )?args: \[(.+)\]`)
	var out []string
	add := func(line string) { out = append(out, strings.TrimPrefix(end.ReplaceAllString(line, ""), "kubectl ")) }
	block := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case !block:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				add(m[1])
			}
		case start.MatchString(line):
			add(start.FindStringSubmatch(line)[1])
		case program == "tisnap" && args.MatchString(line):
			add("tisnap " + strings.NewReplacer(",", "", `"`, "").Replace(args.FindStringSubmatch(line)[1]))
		}
	}
	return out
}

// Unknown returns the first command or flag of a command line that the program does not have, or "". A word that is not
// in lower case stands for any command.
func Unknown(root *cobra.Command, line string) string {
	words := strings.Fields(line)[1:]
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() && cmd.Use == cmd.Name() && len(rest) > 0 && isCommand(rest[0]) {
		return strings.Join(words, " ")
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "-") && !knows(cmd, strings.TrimRight(flag, "`.,;:)…")) {
			return flag
		}
	}
	return ""
}

func isCommand(word string) bool { return regexp.MustCompile(`^[a-z]+$`).MatchString(word) }

func knows(cmd *cobra.Command, flag string) bool {
	if long, ok := strings.CutPrefix(flag, "--"); ok {
		return cmd.Flag(long) != nil
	}
	short := strings.TrimPrefix(flag, "-")
	return len(short) == 1 && (cmd.Flags().ShorthandLookup(short) != nil || cmd.InheritedFlags().ShorthandLookup(short) != nil)
}
