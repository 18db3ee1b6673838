package copyrun_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
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
				l.encrypt(t)
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

// A key of the source that EC2 cannot use is refused with what brings it back, before the first change. KMS alone is asked
// for it: who may not ask copies with a warning.
func TestRun_KeyOfTheSource_CheckedBeforeTheFirstChange(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		is      func(*ebstest.Server)
		refused bool
		text    string
	}{
		"enabled":  {is: func(*ebstest.Server) {}},
		"disabled": {func(s *ebstest.Server) { s.SetKey(sourceKey, ebs.Key{State: ebs.KeyDisabled}) }, true, "aws kms enable-key --key-id " + sourceKey},
		"pending deletion": {
			func(s *ebstest.Server) { s.SetKey(sourceKey, ebs.Key{State: ebs.KeyPendingDeletion}) },
			true, "aws kms cancel-key-deletion --key-id " + sourceKey,
		},
		"deleted":             {func(s *ebstest.Server) { s.DeleteKey(sourceKey) }, true, "copy another backup"},
		"may not be asked of": {is: func(s *ebstest.Server) { s.Deny("DescribeKey") }, text: "see its state (aws kms describe-key --key-id " + sourceKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 2)
			l.encrypt(t)
			backup := l.backup(t)
			row.is(l.from.server)
			reported := &notes{}
			deps := l.deps()
			deps.Sink = reported
			before := l.from.store.MutatingCalls()
			_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
			if !row.refused {
				require.NoError(t, err)
				require.Equal(t, row.text != "", strings.Contains(reported.text, "whether EC2 can read"))
				require.Contains(t, reported.text, row.text)
				l.requireWhole(t, backup)
				return
			}
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), row.text)
			require.Equal(t, before, l.from.store.MutatingCalls())
			require.Empty(t, l.to.store.MutatingCalls())
			require.Empty(t, l.to.server.MutatingCalls())
			l.requireUnshared(t)
		})
	}
}
