package ebs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// Only where nothing is configured AWS is absent: what is configured and cannot be used is a user's mistake.
func TestIsAbsent_NothingIsConfigured(t *testing.T) {
	sso := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(sso, []byte("[default]\nsso_start_url=https://x.awsapps.com/start\nsso_region=us-west-2\n"+
		"sso_account_id=123456789012\nsso_role_name=r\n"), 0o600))
	for name, row := range map[string]struct {
		env    map[string]string
		config ebs.Config
		want   bool
	}{
		"no credentials":             {nil, ebs.Config{Region: "us-west-2"}, true},
		"no region":                  {nil, ebs.Config{}, true},
		"an unknown profile":         {nil, ebs.Config{Region: "us-west-2", Profile: "absent"}, false},
		"no login":                   {map[string]string{"AWS_CONFIG_FILE": sso}, ebs.Config{Region: "us-west-2"}, false},
		"a token that is not there":  {map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/absent"}, ebs.Config{Region: "us-west-2"}, false},
		"a role that is not assumed": {nil, ebs.Config{Region: "us-west-2", RoleARN: "arn:aws:iam::123456789012:role/r"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			for name, value := range row.env {
				t.Setenv(name, value)
			}
			_, err := ebs.Open(t.Context(), row.config)
			require.Error(t, err)
			require.Equal(t, row.want, ebs.IsAbsent(err), "%v", err)
		})
	}
}
