package copyrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
)

// Keys of the target.
const (
	keyA = "arn:aws:kms:" + awayAt + ":" + away + ":key/a"
	keyB = "arn:aws:kms:" + awayAt + ":" + away + ":key/b"
)

// keyRow is a copy of a backup after one of an earlier backup of the same volumes.
type keyRow struct {
	first, second string // the keys that are chosen
	between       func(*lab)
	encrypted     bool // the source
	want          copyplan.Reason
}

func keyRows() map[string]keyRow {
	always := func(key string) func(*lab) { return func(l *lab) { l.to.server.SetDefaultKey(key, true) } }
	chosen := func(key string) func(*lab) { return func(l *lab) { l.to.server.SetDefaultKey(key, false) } }
	deny := func(action string) func(*lab) { return func(l *lab) { l.to.server.Deny(action) } }
	return map[string]keyRow{
		"none, twice":                      {},
		"a key, then none":                 {first: "alias/a", want: copyplan.OtherKey},
		"none, then a key":                 {second: "alias/a", want: copyplan.OtherKey},
		"an alias, twice":                  {first: "alias/a", second: "alias/a"},
		"an alias, then its key":           {first: "alias/a", second: keyA},
		"an alias, then another":           {first: "alias/a", second: "alias/b", want: copyplan.OtherKey},
		"an alias that is now another key": {first: "alias/a", second: "alias/a", between: func(l *lab) { l.to.server.SetAlias("alias/a", keyB) }, want: copyplan.OtherKey},
		"encryption by default since then": {between: always(""), want: copyplan.OtherKey},
		"a key, which is by default then":  {first: keyA, between: always("alias/a")},
		"the default key, twice":           {encrypted: true},
		"the default key, then by name":    {second: "alias/aws/ebs", encrypted: true},
		"the default key, then a chosen":   {between: chosen(keyA), encrypted: true, want: copyplan.OtherKey},
		"the default key, then a key":      {second: keyA, encrypted: true, want: copyplan.OtherKey},
		"EC2 may not be asked":             {between: deny("GetEbsEncryptionByDefault"), want: copyplan.UnknownKey},
		"the key may not be asked for":     {between: deny("GetEbsDefaultKmsKeyId"), encrypted: true, want: copyplan.UnknownKey},
		"KMS may not be asked":             {between: deny("DescribeKey"), encrypted: true, want: copyplan.UnknownKey},
		"an alias may not be resolved":     {first: "alias/a", second: "alias/a", between: deny("DescribeKey"), want: copyplan.UnknownKey},
		"a key by its ARN, without KMS":    {first: keyA, second: keyA, between: deny("DescribeKey")},
	}
}

// Each copy is planned as EC2 then makes it. What cannot be known counts in full.
func TestRun_KeysOfTheCopies_PlannedAsEC2Copies(t *testing.T) {
	t.Parallel()
	for name, row := range keyRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			if row.encrypted {
				key := "arn:aws:kms:" + homeAt + ":" + home + ":key/source"
				l.from.server.ShareKey(key, away)
				require.NoError(t, l.from.server.Encrypt(l.topology.Stores[0].Volumes[0].ID, key))
			}
			l.to.server.SetAlias("alias/a", keyA)
			l.to.server.SetAlias("alias/b", keyB)
			options := l.options(l.backup(t), "run-1")
			options.KMSKey = row.first
			_, err := copyrun.Run(t.Context(), l.deps(), options)
			require.NoError(t, err)
			if row.between != nil {
				row.between(l)
			}
			options = l.options(l.backup(t), "run-2")
			options.KMSKey = row.second
			result, err := copyrun.Run(t.Context(), l.deps(), options)
			require.NoError(t, err)
			require.Equal(t, row.want, result.Plan.Copies[0].Full)
			if row.want != copyplan.Incremental {
				require.Contains(t, result.Plan.Text(), string(row.want))
			}
			if row.want != copyplan.UnknownKey {
				require.Equal(t, row.want == copyplan.Incremental, l.to.server.Copies()[1].Full == "", "as EC2 reports it")
			}
		})
	}
}
