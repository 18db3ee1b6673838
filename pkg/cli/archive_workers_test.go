package cli

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notOfPods are the flags of `archive join` that the pods of --on-kubernetes do without.
func notOfPods() []string {
	return slices.Concat(
		[]string{"name", "index"}, // by default those of the pod
		[]string{"profile", "repo-profile", "repo-passphrase-file", "log-file"},   // files of this machine
		[]string{"kubeconfig", "context", "namespace", "as", "via", "storage"},    // join connects to neither
		[]string{"pd", "resolve", "address-map", "ca", "cert", "key"},             // nor to the cluster
		[]string{"output", "progress", "log-level", "log-format", "grace-period"}, // of the Job itself
	)
}

// A flag of join that a pod needs and does not get fails it, or has it read another account.
func TestJoinArgs_EachFlag_IsPassedOrNotOfPods(t *testing.T) {
	t.Parallel()
	g := globalFlags{
		endpoint: "http://ec2", ebsRole: "arn:aws:iam::111122223333:role/ebs", ebsExternalID: "ours", profile: "mine",
	}
	f := archiveWorkersFlags{pods: 3, secret: "key"}
	args := f.joinArgs(&g, &repoFlags{url: "s3://b/a", region: "eu-west-1", endpoint: "http://s3", profile: "mine"},
		archiveRun{"run", "id", "us-west-2"}, 0)

	join, _, err := new(app).root().Find([]string{"archive", "join"})
	require.NoError(t, err)
	require.NoError(t, join.ParseFlags(args))
	var left []string
	join.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			left = append(left, f.Name)
		}
	})
	assert.ElementsMatch(t, notOfPods(), left)
	for flag, want := range map[string]string{
		"workers": "3", "repo": "s3://b/a", "repo-id": "id", "repo-region": "eu-west-1", "repo-endpoint-url": "http://s3",
		"repo-identity": "/etc/tisnap/archive/identity", "region": "us-west-2", "endpoint-url": g.endpoint,
		"ebs-role-arn": g.ebsRole, "ebs-external-id": g.ebsExternalID,
	} {
		assert.Equal(t, want, join.Flag(flag).Value.String(), flag)
	}

	few := archiveWorkersFlags{pods: 1}
	args = few.joinArgs(&globalFlags{}, &repoFlags{url: "s3://b/a"}, archiveRun{"run", "id", "us-west-2"}, 0)
	assert.Len(t, args, 5, "what is not set is not passed: %v", args)
}

// The quota is the account's.
func TestJoinArgs_Rate_IsOfAllPodsTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit string
		pods  int
		each  float64
	}{
		"default":        {"", 4, defaultReads / 4},
		"one pod":        {"", 1, defaultReads},
		"set":            {"100MiB", 8, 25},
		"less than each": {"1MiB", 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, err := readLimits(c.limit)
			require.NoError(t, err)
			f := archiveWorkersFlags{pods: c.pods}
			join, _, err := new(app).root().Find([]string{"archive", "join"})
			require.NoError(t, err)
			require.NoError(t, join.ParseFlags(f.joinArgs(&globalFlags{}, &repoFlags{}, archiveRun{}, of.Reads)))
			one, err := readLimits(join.Flag("limit-rate").Value.String())
			require.NoError(t, err)
			assert.InDelta(t, c.each, one.Reads, 0.001)
		})
	}
}
