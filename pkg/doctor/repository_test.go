package doctor_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// outcomes are those of the checks of a repository, by subject.
type outcomes map[string][]doctor.Status

// but is o with other outcomes of a subject.
func (o outcomes) but(subject string, of ...doctor.Status) outcomes {
	o = maps.Clone(o)
	o[subject] = of
	return o
}

// inspect makes the checks of a repository.
func inspect(t *testing.T, store objstore.Store) outcomes {
	t.Helper()
	got := outcomes{}
	for _, c := range doctor.Run(t.Context(), doctor.Deps{
		Kube: refused, Store: memory, Blocks: noBlocks, Now: time.Now, Limit: time.Minute,
		Repository: func(context.Context) (objstore.Store, error) { return store, nil },
		EBS:        func(context.Context) (doctor.EBS, error) { return nil, failure.New(failure.Denied, "", "", "no") },
	}, cluster.Name{Namespace: "tidb", Name: "prod"}, doctor.Archive) {
		if c.Name == "repository" {
			t.Logf("%s: %s: %s (%s)", c.Subject, c.Status, c.Found, c.Fix)
			got[c.Subject] = append(got[c.Subject], c.Status)
		}
	}
	return got
}

// Each right that a repository with a retention needs is tried, none that is missing hides another, and nothing is left
// behind. The server has one point for s3:GetObject and s3:GetObjectVersion, and one for the two rights to delete.
func TestRun_Repository_EachRightIsTried(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	ok := outcomes{"writes": {doctor.OK}, "versions": {doctor.OK}, "object lock": {doctor.OK}}
	for name, row := range map[string]struct {
		unlocked bool
		denied   []string
		want     outcomes
		left     bool // as nothing may be deleted
	}{
		"all":          {want: ok},
		"without lock": {unlocked: true, want: ok},
		"list":         {denied: []string{"ListObjectsV2"}, want: ok.but("writes", doctor.Fail)},
		"write":        {denied: []string{"PutObject"}, want: ok.but("writes", doctor.Fail)},
		"read":         {denied: []string{"GetObject"}, want: ok.but("writes", doctor.Fail).but("object lock", doctor.Fail)},
		"read, without lock": {
			unlocked: true, denied: []string{"GetObject"}, want: ok.but("writes", doctor.Fail),
		},
		"delete": {
			denied: []string{"DeleteObject"}, left: true, want: ok.but("writes", doctor.Fail).but("versions", doctor.Fail),
		},
		"see whether there are versions": {denied: []string{"GetBucketVersioning"}, want: ok.but("versions", doctor.Warn)},
		"list versions":                  {denied: []string{"ListObjectVersions"}, want: ok.but("versions", doctor.Fail)},
		"anything about versions": {
			denied: []string{"GetBucketVersioning", "ListObjectVersions", "DeleteObject"}, left: true,
			want: ok.but("writes", doctor.Fail).but("versions", doctor.Warn, doctor.Warn, doctor.Warn),
		},
		"read retentions": {denied: []string{"GetObjectRetention"}, want: ok.but("object lock", doctor.Fail)},
		"set retentions":  {denied: []string{"PutObjectRetention"}, want: ok.but("object lock", doctor.Warn)},
		"see the lock":    {denied: []string{"GetObjectLockConfiguration"}, want: ok.but("object lock", doctor.Warn)},
		"see that there is no lock": {
			unlocked: true, denied: []string{"GetObjectLockConfiguration"}, want: ok.but("object lock", doctor.Warn),
		},
		"anything about the lock": {
			denied: []string{"GetObjectLockConfiguration", "GetObject", "GetObjectRetention", "PutObjectRetention"},
			want:   ok.but("writes", doctor.Fail).but("object lock", doctor.Warn, doctor.Warn, doctor.Warn, doctor.Warn),
		},
		"set retentions, nor read versions": {
			denied: []string{"PutObjectRetention", "GetObject"},
			want:   ok.but("writes", doctor.Fail).but("object lock", doctor.Fail, doctor.Warn),
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := new(fault.Plan)
			for _, call := range row.denied {
				require.NoError(t, plan.Add(fault.Rule{Point: "s3." + call, Code: "AccessDenied", Times: -1}))
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
			require.Equal(t, row.want, inspect(t, store))
			require.Empty(t, plan.Unreached())
			plan.Clear()
			requireNothing(t, store, row.left)
		})
	}
}

// requireNothing requires that only what the proof wrote is in the bucket, behind a delete marker unless it is left,
// and nothing, be it a marker, of the objects that are not there.
func requireNothing(t *testing.T, store objstore.Store, left bool) {
	t.Helper()
	b, _ := objstore.BucketOf(store)
	all, err := b.Versions(t.Context(), "")
	require.NoError(t, err)
	for _, v := range all {
		require.Contains(t, v.Key, manifest.ProbesPrefix)
		require.NotContains(t, v.Key, "absent")
		require.True(t, left || v.Marker || !v.Latest, "%+v", v)
	}
}

// A repository in a folder has no bucket, and what is not there is no error there, too.
func TestRun_RepositoryInAFolder_IsOK(t *testing.T) {
	t.Parallel()
	store, err := objstore.Open(t.Context(), "file://"+t.TempDir()+"/archive", objstore.Config{})
	require.NoError(t, err)
	require.Equal(t, outcomes{"writes": {doctor.OK}, "versions": {doctor.OK}, "object lock": {doctor.OK}}, inspect(t, store))
	left, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, left)
}
