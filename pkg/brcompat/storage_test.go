package brcompat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

func TestOpenStorage_AllThatBRTakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for storage, want := range map[string]string{
		"s3://bucket/prefix":                                           "s3://bucket/prefix",
		"s3://bucket/prefix/?region=eu-west-1&sse=AES256":              "s3://bucket/prefix",
		"s3://bucket?force-path-style=true&endpoint=http://minio:9000": "s3://bucket",
		"local://" + dir:                                               "file://" + dir,
		"file://" + dir:                                                "file://" + dir,
		dir:                                                            "file://" + dir,
	} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			c := Common{Storage: storage, S3: S3Flags{Region: "us-west-2"}}
			s, err := c.openStorage(t.Context(), objstore.Config{})
			require.NoError(t, err)
			require.Equal(t, want, s.URL())
		})
	}
}

func TestOpenStorage_WhatCannotBe_IsRefusedAndRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Common{
		"another cloud":      {Storage: "gcs://bucket/prefix"},
		"keys in the URL":    {Storage: "s3://bucket/p?access-key=AKIDLAB&secret-access-key=SECRETLAB"},
		"user in the URL":    {Storage: "s3://AKIDLAB:SECRETLAB@bucket/p"},
		"a class for years":  {Storage: "s3://bucket/p", S3: S3Flags{StorageClass: "DEEP_ARCHIVE"}},
		"no URL":             {Storage: "s3://%zz"},
		"a relative folder":  {Storage: "local://folder"},
		"an unknown setting": {Storage: "s3://bucket/p?turbo=1"},
		"neither true":       {Storage: "s3://bucket/p?force-path-style=perhaps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.openStorage(t.Context(), objstore.Config{})
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), "SECRETLAB")
		})
	}
}
