package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestTLSFiles_Config(t *testing.T) {
	t.Parallel()
	none, err := cluster.TLSFiles{}.Config()
	require.NoError(t, err)
	require.Nil(t, none)
	noPEM := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(noPEM, []byte("hello"), 0o600))
	for name, f := range map[string]cluster.TLSFiles{
		"no CA there":     {CA: "/nowhere/ca.crt"},
		"no certificate":  {CA: noPEM},
		"half a key pair": {Cert: noPEM},
		"only a key":      {Key: noPEM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := f.Config()
			require.Equal(t, failure.Usage, failure.KindOf(err))
		})
	}
}
