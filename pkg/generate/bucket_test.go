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

// The script creates the bucket as its region wants it, and leaves a bucket's own rules alone.
func TestBucket_Script_CallsAWS(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		region, found string // what aws exits with when it is asked for something
		want          []string
	}{
		"new": {"eu-west-1", "255", []string{
			"head-bucket", "create-bucket --region eu-west-1 --create-bucket-configuration LocationConstraint=eu-west-1",
			"put-public-access-block", "put-bucket-versioning", "get-bucket-policy", "put-bucket-policy",
			"get-bucket-lifecycle-configuration", "put-bucket-lifecycle-configuration",
		}},
		"new in us-east-1": {"us-east-1", "255", []string{
			"head-bucket", "create-bucket --region us-east-1", "put-public-access-block", "put-bucket-versioning",
			"get-bucket-policy", "put-bucket-policy", "get-bucket-lifecycle-configuration", "put-bucket-lifecycle-configuration",
		}},
		"there": {"eu-west-1", "0", []string{
			"head-bucket", "put-public-access-block", "put-bucket-versioning", "get-bucket-policy", "get-bucket-lifecycle-configuration",
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
				"\ncase $2 in head-*|get-*) exit " + row.found + ";; esac\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700))
			cmd := exec.CommandContext(t.Context(), "bash")
			cmd.Stdin = strings.NewReader(string(script))
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
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
