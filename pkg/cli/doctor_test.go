package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the command line names and this purpose does not check is refused; a setting of the environment is not.
func TestDoctor_RepositoryIsNotOfThePurpose_IsRefused(t *testing.T) {
	const ignored, next = "is not checked --for", `"a/b/c"` // no cluster has that name
	for args, want := range map[string]string{
		"--for=backup --repo=s3://typo": ignored, "--for=drill --repo=s3://typo": ignored, "--for=gc --archive-key=arn": ignored,
		"--repo=s3://typo --archive-key=arn": next, "--for=archive --repo=s3://typo": next, "--for=backup": next,
	} {
		t.Run(args, func(t *testing.T) {
			code, _, stderr := run(t, append([]string{"doctor", "a/b/c"}, strings.Fields(args)...)...)
			require.EqualValues(t, 2, code)
			require.Contains(t, stderr, want)
		})
	}
	t.Setenv("TISNAP_REPO", "s3://archive/prod")
	_, _, stderr := run(t, "doctor", "a/b/c", "--for=backup")
	require.Contains(t, stderr, next)
}
