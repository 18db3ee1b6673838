package suite

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Buckets is an S3 server that the tests of what a bucket is set to run on.
type Buckets struct {
	URL string
	// Sign signs a request with this body.
	Sign func(t *testing.T, r *http.Request, body []byte)
	// Open opens a folder of a bucket as a store.
	Open func(t *testing.T, url string) objstore.Store
	// Name makes the name of a bucket that there is not yet.
	Name func(t *testing.T) string
	// Lacks are what the server does not have.
	Lacks []string
}

// RunBuckets checks what is read of a bucket's settings, and that writes hold their conditions under them.
func RunBuckets(t *testing.T, s Buckets) {
	t.Helper()
	for name, row := range map[string]struct {
		needs string // a setting, or what comes of one
		lock  bool   // the bucket is made with Object Lock
		check func(*testing.T, *madeBucket)
	}{
		"Versioning_OffOnSuspended_AreRead":        {"versioning", false, versioning},
		"Versioning_On_WritesHoldTheirConditions":  {"versioning", false, versionedWrites},
		"Versioning_On_ADeletedKeyIsFree":          {"free keys behind delete markers", false, markers},
		"Lifecycle_RulesOfTheFolder_AreRead":       {"lifecycle", false, lifecycle},
		"Lifecycle_OldForm_IsRead":                 {"lifecycle rules without a filter", false, lifecycleOldForm},
		"Lifecycle_None_IsEmpty":                   {"lifecycle", false, noLifecycle},
		"ObjectLock_None_IsOff":                    {"object lock", false, noLock},
		"ObjectLock_WithoutAndWithDefault_IsRead":  {"object lock", true, objectLock},
		"ObjectLock_Versioning_ComesWithIt":        {"object lock", true, lockedIsVersioned},
		"Retention_OnlyLongerAndStricter":          {"object lock", true, retention},
		"Retention_NewVersion_HasNone":             {"object lock", true, retentionOfVersions},
		"Versions_ReplacedAndDeleted_AreRead":      {"versioning", false, versionsRead},
		"Versions_Removed_AreGone":                 {"versioning", false, versionsRemoved},
		"Retaining_WhatIsWritten_IsKept":           {"object lock", true, retaining},
		"Retention_Default_WritesAndDeletesGoOn":   {"object lock", true, retainedByDefault},
		"Retention_Default_IsShown":                {"default retentions of objects", true, defaultIsShown},
		"Extend_OnlyLongerAndStricter":             {"object lock", true, extend},
		"Clock_IsTheServers":                       {"", false, clock},
		"Bucket_Missing_IsNoBucketWithoutSettings": {"", false, missingBucket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.needs != "" && slices.Contains(s.Lacks, row.needs) {
				t.Skipf("the server lacks: %s", row.needs)
			}
			row.check(t, s.make(t, row.lock))
		})
	}
}

// madeBucket is a bucket of one test.
type madeBucket struct {
	server Buckets
	name   string
}

func (s Buckets) make(t *testing.T, lock bool) *madeBucket {
	t.Helper()
	b := &madeBucket{s, s.Name(t)}
	header := http.Header{}
	if lock {
		header.Set("X-Amz-Bucket-Object-Lock-Enabled", "true")
	}
	b.put(t, "", "", header)
	return b
}

// set puts a setting as S3's API takes it.
func (b *madeBucket) set(t *testing.T, setting, body string) {
	t.Helper()
	b.put(t, "?"+setting+"=", body, http.Header{})
}

func (b *madeBucket) put(t *testing.T, query, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.server.URL+"/"+b.name+query, strings.NewReader(body))
	require.NoError(t, err)
	r.Header = header
	digest := md5.Sum([]byte(body))
	r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(digest[:]))
	b.server.Sign(t, r, []byte(body))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", bytes.TrimSpace(text))
}

// folder is the bucket as the settings of a store in this folder are read from it.
func (b *madeBucket) folder(t *testing.T, prefix string) objstore.Bucket {
	t.Helper()
	of, ok := objstore.BucketOf(b.server.Open(t, "s3://"+b.name+"/"+prefix))
	require.True(t, ok)
	require.Equal(t, b.name, of.Name())
	return of
}

func (b *madeBucket) setVersioning(t *testing.T, status string) {
	t.Helper()
	b.set(t, "versioning", `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>`+status+`</Status></VersioningConfiguration>`)
}

func versioning(t *testing.T, b *madeBucket) {
	of := b.folder(t, "p")
	requireVersioning(t, of, "")
	for _, status := range []string{"Enabled", "Suspended"} {
		b.setVersioning(t, status)
		requireVersioning(t, of, status)
	}
}

func requireVersioning(t *testing.T, of objstore.Bucket, want string) {
	t.Helper()
	got, err := of.Versioning(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func versionedWrites(t *testing.T, b *madeBucket) {
	b.setVersioning(t, "Enabled")
	s := b.server.Open(t, "s3://"+b.name+"/p")
	v := create(t, s, "a", "one")
	_, err := s.Create(t.Context(), "a", []byte("two"))
	kind(t, failure.Conflict, err)
	v2, err := s.Replace(t.Context(), "a", []byte("three"), v)
	require.NoError(t, err)
	_, err = s.Replace(t.Context(), "a", []byte("four"), v)
	kind(t, failure.Conflict, err)
	require.Equal(t, v2, requireBody(t, s, "a", "three"))
}

// A deleted object is a marker, which is neither listed nor in the way of the next object of its key.
func markers(t *testing.T, b *madeBucket) {
	b.setVersioning(t, "Enabled")
	s := b.server.Open(t, "s3://"+b.name+"/p")
	create(t, s, "a", "one")
	require.NoError(t, s.Delete(t.Context(), "a"))
	_, _, err := s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
	found, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, found)
	create(t, s, "a", "again")
}

const expires = "<Expiration><Days>30</Days></Expiration>"

// rule is one of a lifecycle configuration.
func rule(id, status, filter, action string) string {
	return "<Rule><ID>" + id + "</ID><Status>" + status + "</Status>" + filter + action + "</Rule>"
}

func (b *madeBucket) setLifecycle(t *testing.T, rules ...string) {
	t.Helper()
	b.set(t, "lifecycle", `<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`+strings.Join(rules, "")+"</LifecycleConfiguration>")
}

func requireRules(t *testing.T, of objstore.Bucket, want ...objstore.Rule) {
	t.Helper()
	got, err := of.Lifecycle(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

// Only rules that can reach the store's objects, which have no tags, are listed.
func lifecycle(t *testing.T, b *madeBucket) {
	const tag = "<Tag><Key>k</Key><Value>v</Value></Tag>"
	prefix := func(p string) string { return "<Filter><Prefix>" + p + "</Prefix></Filter>" }
	b.setLifecycle(t,
		rule("whole bucket", "Enabled", prefix(""), expires),
		rule("below", "Enabled", prefix("a/b/manifests/"), "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"),
		rule("other classes", "Enabled", prefix(""), "<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"),
		rule("versions", "Enabled", prefix(""), "<NoncurrentVersionExpiration><NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration>"),
		rule("markers", "Enabled", prefix(""), "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"),
		rule("disabled", "Disabled", prefix(""), expires),
		rule("elsewhere", "Enabled", prefix("a/bc/"), expires),
		rule("tagged", "Enabled", "<Filter>"+tag+"</Filter>", expires),
		rule("prefix and tag", "Enabled", "<Filter><And><Prefix>a/</Prefix>"+tag+"</And></Filter>", expires))
	requireRules(t, b.folder(t, "a/b"),
		objstore.Rule{ID: "whole bucket", Expires: true}, objstore.Rule{ID: "below", Archive: "GLACIER"},
		objstore.Rule{ID: "other classes"}, objstore.Rule{ID: "versions", NoncurrentExpires: true}, objstore.Rule{ID: "markers"})
}

// The form without a filter is deprecated, and still in use.
func lifecycleOldForm(t *testing.T, b *madeBucket) {
	b.setLifecycle(t, rule("here", "Enabled", "<Prefix>a/</Prefix>", expires), rule("there", "Enabled", "<Prefix>c/</Prefix>", expires))
	requireRules(t, b.folder(t, "a/b"), objstore.Rule{ID: "here", Expires: true})
}

func noLifecycle(t *testing.T, b *madeBucket) { requireRules(t, b.folder(t, "p")) }

func requireLock(t *testing.T, of objstore.Bucket, want objstore.ObjectLock) {
	t.Helper()
	got, err := of.ObjectLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func noLock(t *testing.T, b *madeBucket) { requireLock(t, b.folder(t, "p"), objstore.ObjectLock{}) }

func objectLock(t *testing.T, b *madeBucket) {
	of := b.folder(t, "p")
	requireLock(t, of, objstore.ObjectLock{Enabled: true})
	for _, row := range []struct {
		mode, length string
		days         int
	}{{"COMPLIANCE", "<Years>2</Years>", 730}, {"GOVERNANCE", "<Days>3</Days>", 3}} {
		b.set(t, "object-lock", `<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><ObjectLockEnabled>Enabled</ObjectLockEnabled>`+
			"<Rule><DefaultRetention><Mode>"+row.mode+"</Mode>"+row.length+"</DefaultRetention></Rule></ObjectLockConfiguration>")
		requireLock(t, of, objstore.ObjectLock{Enabled: true, Mode: row.mode, Days: row.days})
	}
}

func lockedIsVersioned(t *testing.T, b *madeBucket) {
	requireVersioning(t, b.folder(t, "p"), "Enabled")
}

func retention(t *testing.T, b *madeBucket) {
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	create(t, s, "a", "one")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	retain := func(mode string, until time.Time) objstore.Retention {
		t.Helper()
		got, err := of.Retain(t.Context(), "a", "", objstore.Retention{Mode: mode, Until: until})
		require.NoError(t, err)
		again, err := of.Retention(t.Context(), "a", "")
		require.NoError(t, err)
		require.Equal(t, again, got)
		return got
	}
	none, err := of.Retention(t.Context(), "a", "")
	require.NoError(t, err)
	require.Zero(t, none)
	require.True(t, until.Equal(retain(objstore.RetainGovernance, until).Until))
	require.True(t, until.Equal(retain(objstore.RetainGovernance, until.Add(-time.Minute)).Until), "not shorter")
	later := until.Add(time.Minute)
	got := retain(objstore.RetainGovernance, later)
	require.True(t, later.Equal(got.Until))
	require.Equal(t, objstore.RetainGovernance, got.Mode)
	_, err = of.Retain(t.Context(), "b", "", objstore.Retention{Mode: objstore.RetainGovernance, Until: later})
	kind(t, failure.NotFound, err)
}

// Retention is of a version: what is written over it has none, and can be written.
func retentionOfVersions(t *testing.T, b *madeBucket) {
	of, s := b.folder(t, "p"), b.server.Open(t, "s3://"+b.name+"/p")
	version := create(t, s, "a", "one")
	_, err := of.Retain(t.Context(), "a", "", objstore.Retention{Mode: objstore.RetainGovernance, Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	_, err = s.Replace(t.Context(), "a", []byte("two"), version)
	require.NoError(t, err)
	got, err := of.Retention(t.Context(), "a", "")
	require.NoError(t, err)
	require.Zero(t, got)
}

func clock(t *testing.T, b *madeBucket) {
	at, err := b.folder(t, "p").Clock(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
}

func missingBucket(t *testing.T, b *madeBucket) {
	gone := madeBucket{b.server, b.server.Name(t)}
	of := gone.folder(t, "p")
	_, versioning := of.Versioning(t.Context())
	_, lifecycle := of.Lifecycle(t.Context())
	_, lock := of.ObjectLock(t.Context())
	_, clock := of.Clock(t.Context())
	for _, err := range []error{versioning, lifecycle, lock, clock} {
		kind(t, failure.NotFound, err)
	}
}
