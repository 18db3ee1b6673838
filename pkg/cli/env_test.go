package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestCheckEnv_RefusesWhatSetsNoFlag(t *testing.T) {
	t.Parallel()
	for variable, hint := range map[string]string{
		"TISNAP_STORAG=s3://b/p": "TISNAP_STORAGE", "TISNAP_DRYRUN=true": "TISNAP_DRY_RUN", "TISNAP_GRACE=1m": "TISNAP_GRACE_PERIOD",
		"TISNAP_VOLUME_IOP=1": "TISNAP_VOLUME_IOPS", "TISNAP_S3_BUCKET=b": "TISNAP_STORAGE", "TISNAP_SIGN_PASWORD=x": "TISNAP_SIGN_PASSWORD",
		"TISNAP_=x": "unset it", "TISNAP_TESTING=x": "unset it",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			err := checkEnv(new(app).root(), []string{"PATH=/bin", variable})
			require.Error(t, err)
			assert.Equal(t, failure.Usage, failure.KindOf(err))
			assert.Contains(t, failure.HintOf(err), hint)
			assert.NotContains(t, err.Error(), "s3://b/p", "a value may be a secret")
		})
	}
}

// A Service that is named tisnap, or tisnap-exporter, sets variables in each pod of its namespace; a Job has the
// settings of all its commands; the tests have their own.
func TestCheckEnv_TakesWhatIsLegitimate(t *testing.T) {
	t.Parallel()
	services := []string{
		"TISNAP_SERVICE_HOST=10.0.0.1", "TISNAP_SERVICE_PORT=9090", "TISNAP_SERVICE_PORT_HTTP=9090", "TISNAP_PORT=tcp://10.0.0.1:9090",
		"TISNAP_PORT_9090_TCP=tcp://10.0.0.1:9090", "TISNAP_PORT_9090_TCP_PROTO=tcp", "TISNAP_PORT_9090_TCP_PORT=9090",
		"TISNAP_PORT_9090_TCP_ADDR=10.0.0.1", "TISNAP_EXPORTER_SERVICE_HOST=10.0.0.1", "TISNAP_EXPORTER_PORT_9090_TCP=tcp://10.0.0.1:9090",
	}
	environ := append(services, "TISNAP_STORAGE=s3://b/p", "TISNAP_VOLUME_IOPS=3000", "TISNAP_KEEP_DAILY=7", "TISNAP_LISTEN=:9090",
		"TISNAP_SIGN_PASSWORD=x", "TISNAP_TEST_CONTROL_PLANE=/x", "XTISNAP_OTHER=x", "TISNAPPING=x")
	require.NoError(t, checkEnv(new(app).root(), environ))
	for _, name := range envNames(new(app).root()) {
		assert.False(t, injected.MatchString(name), "%s: a Service would set this flag", name)
	}
}

// Each command refuses it, before anything else.
func TestRun_MisspeltVariable_IsRefused(t *testing.T) {
	t.Setenv("TISNAP_DRYRUN", "true")
	for _, args := range [][]string{{"backup", "tidb/prod"}, {"version"}, {"hold", "status", "tidb/prod"}} {
		code, _, errOut := run(t, args...)
		require.EqualValues(t, 2, code, args)
		require.Contains(t, errOut, "did you mean TISNAP_DRY_RUN?", args)
	}
}
