package format_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
)

// Only who has the newest key can record a time.
func TestRetained_OnlyOfTheNewestKey(t *testing.T) {
	t.Parallel()
	keys, err := format.NewKeyring()
	require.NoError(t, err)
	other, err := format.NewKeyring()
	require.NoError(t, err)
	rotated, err := keys.Rotated()
	require.NoError(t, err)
	until := time.Date(2027, 1, 2, 3, 4, 5, 6, time.UTC)
	object, err := keys.SealRetained(until)
	require.NoError(t, err)
	require.Equal(t, until.Truncate(time.Second), keys.OpenRetained(object))
	for name, forged := range map[string]string{
		"later": strings.Replace(string(object), "2027", "2028", 1), "none": "", "no mac": "2027-01-02T03:04:05Z\n",
		"more": string(object) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Zero(t, keys.OpenRetained([]byte(forged)))
		})
	}
	require.Zero(t, other.OpenRetained(object))
	require.Zero(t, rotated.OpenRetained(object))
}
