package mutants

import (
	"context"
	"os/exec"
	"slices"
	"strings"
)

const (
	// upstream is the branch that a change is to go into.
	upstream = "origin/main"
	// lastCommits is how many are looked at where upstream is unknown, or has all of them.
	lastCommits = "20"
)

// Changed returns the files of the repository at root that differ from upstream, committed or not; where that is unknown
// or does not differ, those of the last commits. It is empty without a repository or a history: nothing is known to have
// changed then. The names are sorted, and from root.
func Changed(ctx context.Context, root string) []string {
	if base, ok := git(ctx, root, "merge-base", "HEAD", upstream); ok {
		if files := differing(ctx, root, base); len(files) > 0 {
			return files
		}
	}
	// Of merges only what went into this branch counts, and a shallow clone has fewer.
	commits, _ := git(ctx, root, "rev-list", "--first-parent", "--max-count="+lastCommits, "HEAD")
	all := strings.Fields(commits)
	if len(all) == 0 {
		return nil
	}
	return differing(ctx, root, all[len(all)-1])
}

// differing are the files of the work tree that differ from a commit.
func differing(ctx context.Context, root, commit string) []string {
	out, _ := git(ctx, root, "diff", "--name-only", "--relative", "--no-renames", "-z", commit)
	files := strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return files
}

// git returns what a command of git prints, and false where it fails or there is no git.
func git(ctx context.Context, root string, args ...string) (string, bool) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err == nil
}
