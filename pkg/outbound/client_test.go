package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckURL_OnlyHTTP(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://hooks.example.com/x": true, "http://127.0.0.1:8080": true,
		"": false, "hooks.example.com": false, "ftp://secret/x": false, "https://": false, "http://secret\x7f": false,
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			err := outbound.CheckURL(url)
			if good {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, failure.Usage, failure.KindOf(err))
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}
