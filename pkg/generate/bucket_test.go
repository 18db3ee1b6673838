package generate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/generate"
)

// unset is aws for a bucket that is not there, or has nothing of its own.
const unset = `case $2 in
*policy) code=NoSuchBucketPolicy;;
*lifecycle*) code=NoSuchLifecycleConfiguration;;
*) code=404;;
esac
echo "An error occurred ($code) when calling the operation" >&2
exit 254`

// The script creates the bucket as its region wants it, and leaves a bucket's own rules alone.
func TestBucket_Script_CallsAWS(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		region string
		answer string // how aws answers when it is asked for something: "$2" is what
		fails  bool
		want   []string
	}{
		"new": {"eu-west-1", unset, false, []string{
			"head-bucket", "create-bucket --region eu-west-1 --create-bucket-configuration LocationConstraint=eu-west-1",
			"put-public-access-block", "put-bucket-versioning", "get-bucket-policy", "put-bucket-policy",
			"get-bucket-lifecycle-configuration", "put-bucket-lifecycle-configuration",
		}},
		"new in us-east-1": {"us-east-1", unset, false, []string{
			"head-bucket", "create-bucket --region us-east-1", "put-public-access-block", "put-bucket-versioning",
			"get-bucket-policy", "put-bucket-policy", "get-bucket-lifecycle-configuration", "put-bucket-lifecycle-configuration",
		}},
		"there": {"eu-west-1", "exit 0", false, []string{
			"head-bucket", "put-public-access-block", "put-bucket-versioning", "get-bucket-policy", "get-bucket-lifecycle-configuration",
		}},
		"its policy may not be read": {"eu-west-1", `case $2 in head-*) exit 0;; esac; echo "(AccessDenied)" >&2; exit 254`, true, []string{
			"head-bucket", "put-public-access-block", "put-bucket-versioning", "get-bucket-policy",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storage()
			s.Region = row.region
			script, err := generate.Bucket(s)
			require.NoError(t, err)
			bin := t.TempDir()
			calls := filepath.Join(bin, "calls")
			aws := "#!/bin/sh\nargs=\ncase $2 in create-bucket) args=\" $5 $6 $7 $8\";; esac\necho \"$2$args\" >>" + calls +
				"\ncase $2 in head-*|get-*) \n" + row.answer + "\n;; esac\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700))
			cmd := exec.CommandContext(t.Context(), "bash")
			cmd.Stdin = strings.NewReader(string(script))
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			assert.Equal(t, row.fails, err != nil, "%s", out)
			text, err := os.ReadFile(calls)
			require.NoError(t, err)
			var got []string
			for call := range strings.Lines(string(text)) {
				got = append(got, strings.TrimSpace(call))
			}
			assert.Equal(t, row.want, got)
		})
	}
}
