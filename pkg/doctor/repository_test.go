package doctor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Each right that a repository with a retention needs is tried, and nothing is left behind.
func TestRun_Repository_EachRightIsTried(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	ok := map[string]doctor.Status{"writes": doctor.OK, "versions": doctor.OK, "object lock": doctor.OK}
	but := func(subject string, s doctor.Status) map[string]doctor.Status {
		out := map[string]doctor.Status{}
		for of, status := range ok {
			out[of] = status
		}
		out[subject] = s
		return out
	}
	noRetention := fault.Rule{Point: "s3.PutObjectRetention", Code: "AccessDenied", Times: -1}
	for name, row := range map[string]struct {
		unlocked bool
		rules    []fault.Rule
		want     map[string]doctor.Status
	}{
		"all":                           {want: ok},
		"without lock":                  {unlocked: true, want: ok},
		"s3.ListObjectsV2":              {want: but("writes", doctor.Fail)},
		"s3.PutObject":                  {want: but("writes", doctor.Fail)},
		"s3.GetBucketVersioning":        {want: but("versions", doctor.Warn)},
		"s3.ListObjectVersions":         {want: but("versions", doctor.Fail)},
		"s3.GetObjectRetention":         {want: but("object lock", doctor.Fail)},
		"s3.PutObjectRetention":         {want: but("object lock", doctor.Warn)},
		"s3.GetObjectLockConfiguration": {want: but("object lock", doctor.Warn)},
		// Without a retention, too, versions are read. It is the only object that is read.
		"neither retentions nor versions": {
			rules: []fault.Rule{noRetention, {Point: "s3.GetObject", Code: "AccessDenied", Times: -1}},
			want:  but("object lock", doctor.Fail),
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := new(fault.Plan)
			if len(name) > 3 && name[:3] == "s3." {
				require.NoError(t, plan.Add(fault.Rule{Point: name, Code: "AccessDenied", Times: -1}))
			}
			for _, rule := range row.rules {
				require.NoError(t, plan.Add(rule))
			}
			server := objstoretest.New(objstoretest.Config{Faults: plan})
			require.NoError(t, server.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			server.CreateBucket("archive")
			if !row.unlocked {
				server.LockBucket("archive")
			}
			store, err := objstore.Open(t.Context(), "s3://archive/prod", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
			require.NoError(t, err)
			t.Cleanup(store.(interface{ Close() }).Close)
			checks := doctor.Run(t.Context(), doctor.Deps{
				Kube: refused, Store: memory, Blocks: noBlocks, Now: time.Now, Limit: time.Minute,
				Repository: func(context.Context) (objstore.Store, error) { return store, nil },
				EBS:        func(context.Context) (doctor.EBS, error) { return nil, failure.New(failure.Denied, "", "", "no") },
			}, cluster.Name{Namespace: "tidb", Name: "prod"}, doctor.Archive)
			got := map[string]doctor.Status{}
			for _, c := range checks {
				if c.Name == "repository" {
					got[c.Subject] = c.Status
				}
			}
			require.Equal(t, row.want, got, checks)
		})
	}
}
