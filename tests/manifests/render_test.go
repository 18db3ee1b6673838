package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func kustomized(t *testing.T, folder string) Objects {
	t.Helper()
	built, err := Kustomize(folder)
	require.NoError(t, err)
	return built
}
