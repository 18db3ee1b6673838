package cli

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestWorkerEnv_Lines_AreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	var e workerEnv
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	addWorkerEnv(fl, &e, "")
	require.NoError(t, fl.Parse([]string{
		"--worker-env", "NO_PROXY=10.0.0.0/8,.svc", "--worker-env", "OTEL_RESOURCE_ATTRIBUTES=a=1,b=2",
		"--worker-env", "A=\nAWS_WEB_IDENTITY_TOKEN_FILE=/var/run/token\n",
	}))
	require.Equal(t, workerEnv{
		"NO_PROXY": "10.0.0.0/8,.svc", "OTEL_RESOURCE_ATTRIBUTES": "a=1,b=2", "A": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
	}, e)
	var again workerEnv
	require.NoError(t, again.Set(e.String()))
	require.Equal(t, e, again)
}

func TestWorkerEnv_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"A":                                     "is not NAME=VALUE",
		"=x":                                    "no name of a variable",
		"A B=x":                                 "no name of a variable",
		"A=1\nA=2":                              "two values",
		"JOB_COMPLETION_INDEX=0":                "is set by",
		"TISNAP_NAME=a":                         "is set by",
		"AWS_SECRET_ACCESS_KEY=x":               "may be a secret",
		"aws_session_token=x":                   "may be a secret",
		"HTTPS_PROXY=http://me:word@proxy:3128": "may be a secret",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization": "may be a secret",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var e workerEnv
			err := e.Set(text)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "word", "a secret is not repeated")
			if want == "may be a secret" {
				assert.Contains(t, failure.HintOf(err), "--worker-secret")
			}
		})
	}
}
