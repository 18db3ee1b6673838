package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// newBucketLab creates a repository in a bucket with Object Lock by the command.
func newBucketLab(t *testing.T, initArgs ...string) (*bucketLab, *archiveInitDoc) {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	server := objstoretest.New(objstoretest.Config{})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.CreateBucket("locked")
	server.LockBucket("locked")
	l := &bucketLab{server: server}
	var recipient string
	l.identity, recipient = newIdentity(t)
	code, out, stderr := run(t, append([]string{"archive", "init", "--recipient", recipient, "-o", "json"}, append(initArgs, l.at()...)...)...)
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveInitDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	return l, &doc
}

// bucketLab is a repository in the stand-in's bucket.
type bucketLab struct {
	server   *objstoretest.Server
	identity string
}

func (l *bucketLab) at() []string {
	return []string{"--repo", "s3://locked/prod", "--repo-endpoint-url", l.server.URL(), "--repo-region", "us-west-2"}
}

func (l *bucketLab) run(t *testing.T, doc any, args ...string) {
	t.Helper()
	code, out, stderr := run(t, append(append([]string{"archive", "-o", "json", "--repo-identity", l.identity}, args...), l.at()...)...)
	require.Equal(t, ExitDone, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), doc))
}

func (l *bucketLab) bucket(t *testing.T) objstore.Bucket {
	t.Helper()
	store, err := objstore.Open(t.Context(), "s3://locked/prod", objstore.Config{Region: "us-west-2", Endpoint: l.server.URL()})
	require.NoError(t, err)
	t.Cleanup(store.(interface{ Close() }).Close)
	b, _ := objstore.BucketOf(store)
	return b
}

func TestArchiveInit_Retention_IsRecordedShownAndPut(t *testing.T) {
	l, doc := newBucketLab(t, "--retention", "30d", "--retention-mode", "compliance")
	want := &retentionOutput{objstore.RetainCompliance, 30}
	require.Equal(t, want, doc.Retention)
	require.True(t, doc.ObjectLock)
	var list archiveListDoc
	l.run(t, &list, "list")
	require.Equal(t, want, list.Retention)
	got, err := l.bucket(t).Retention(t.Context(), format.RepositoryPath, "")
	require.NoError(t, err)
	require.Equal(t, objstore.RetainCompliance, got.Mode)
	require.WithinDuration(t, time.Now().AddDate(0, 0, 30), got.Until, 2*time.Hour)
}

func TestArchiveInit_RetentionThatCannotBe_IsRefused(t *testing.T) {
	t.Parallel()
	_, recipient := newIdentity(t)
	for name, row := range map[string]struct {
		args []string
		code ExitCode
		text string
	}{
		"no days":        {[]string{"--retention", "12h"}, 2, "want 1d to 36500d"},
		"none":           {[]string{"--retention", "0d"}, 2, "want 1d to 36500d"},
		"no mode":        {[]string{"--retention", "1d", "--retention-mode", "strict"}, 2, "want governance or compliance"},
		"no Object Lock": {[]string{"--retention", "1d"}, 5, "no Object Lock was found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"archive", "init", "--repo", "file://" + t.TempDir(), "--recipient", recipient}, row.args...)
			code, _, stderr := run(t, args...)
			require.Equal(t, row.code, code, stderr)
			require.Contains(t, stderr, row.text)
		})
	}
}

// A bucket that keeps everything in compliance mode is no obstacle: archives are forgotten, and what they use is kept,
// reported, and deleted once it may be.
func TestArchive_BucketInComplianceMode_Works(t *testing.T) {
	l, _ := newBucketLab(t, "--retention", "1d", "--retention-mode", "compliance")
	l.server.SetObjectLock("locked", "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>")
	store, err := objstore.Open(t.Context(), "s3://locked/prod", objstore.Config{Region: "us-west-2", Endpoint: l.server.URL()})
	require.NoError(t, err)
	t.Cleanup(store.(interface{ Close() }).Close)
	identities, err := (&app{}).identities(&repoFlags{identity: l.identity})
	require.NoError(t, err)
	r, err := repository.Open(t.Context(), store, identities...)
	require.NoError(t, err)
	pack := format.NewPackName()
	require.NoError(t, r.PutPack(t.Context(), pack, []byte("of an abandoned run")))
	require.NoError(t, r.Commit(t.Context(), "a1", &format.Archive{Backup: "b", Manifest: format.NewManifest([]byte("m"))}))

	_, recipient := newIdentity(t)
	var keys map[string]any
	l.run(t, &keys, "key", "add", "second", "--recipient", recipient)
	l.run(t, &keys, "key", "rotate")
	var pruned archivePruneDoc
	prune := []string{"prune", "--yes", "--min-age", "0s"}
	l.run(t, &pruned, prune...)
	var forgotten archiveForgetDoc
	l.run(t, &forgotten, "forget", "a1", "--yes")
	require.Equal(t, archiveForgotten, forgotten.Items[0].Action)
	require.WithinDuration(t, time.Now().AddDate(0, 0, 1), *forgotten.Items[0].LockedUntil, 2*time.Hour)
	pruned = archivePruneDoc{}
	l.run(t, &pruned, prune...)
	require.Equal(t, int64(1), pruned.Locked.Packs)
	require.Zero(t, pruned.Deleted)
	l.server.Skew(25 * time.Hour)
	pruned = archivePruneDoc{}
	l.run(t, &pruned, prune...)
	require.Equal(t, int64(1), pruned.Deleted.Packs)
	left, err := l.bucket(t).Versions(t.Context(), pack.Path())
	require.NoError(t, err)
	require.Empty(t, left)
}
