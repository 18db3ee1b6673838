package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestUnusableKey_NamesWhatVanishedVolumesHaveInCommon(t *testing.T) {
	t.Parallel()
	type volumes []Volume
	encrypted := func(key string, generation int, seconds float64) Volume {
		return Volume{Encrypted: true, KMSKey: key, generation: generation, Seconds: seconds}
	}
	for name, row := range map[string]struct {
		volumes volumes
		key     string // "" is no reason
	}{
		"all of one key, each once":        {volumes{encrypted("k", 2, 0), encrypted("k", 2, 0), encrypted("k", 2, 0)}, "k"},
		"another key is usable":            {volumes{encrypted("k", 2, 0), encrypted("k", 2, 0), encrypted("l", 1, 3)}, "k"},
		"one of the key was made":          {volumes{encrypted("k", 2, 0), encrypted("k", 1, 3)}, ""},
		"one was made at the second try":   {volumes{encrypted("k", 2, 0), encrypted("k", 2, 3)}, ""},
		"one has not vanished yet":         {volumes{encrypted("k", 2, 0), encrypted("k", 1, 0)}, ""},
		"a single volume, once":            {volumes{encrypted("k", 2, 0)}, ""},
		"a single volume, twice":           {volumes{encrypted("k", 3, 0)}, "k"},
		"the default key":                  {volumes{encrypted("", 2, 0), encrypted("", 2, 0)}, "alias/aws/ebs"},
		"nothing is encrypted":             {volumes{{generation: 2}, {generation: 2}}, ""},
		"an encrypted one that was made":   {volumes{{generation: 2}, encrypted("k", 1, 3)}, ""},
		"nothing has vanished, or is made": {volumes{encrypted("k", 1, 0), encrypted("k", 1, 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := unusableKey(row.volumes)
			if row.key == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Denied, failure.KindOf(err))
			require.ErrorContains(t, err, "create volumes of "+row.key+": all ")
			require.Contains(t, failure.HintOf(err), "kms:CreateGrant")
			require.Contains(t, failure.HintOf(err), "aws kms describe-key --key-id "+row.key)
		})
	}
}
