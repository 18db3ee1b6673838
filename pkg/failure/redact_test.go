package failure_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// hidden is in every secret below, and may be in no text that is shown or kept.
const hidden = "hIdDeN"

// secretTexts are errors as SDKs and servers write them, with a secret in each.
func secretTexts() map[string]string {
	return map[string]string{
		"presigned":           `Get "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA` + hidden + `%2F20261122&X-Amz-Signature=` + hidden + `": EOF`,
		"session token":       "https://b.s3.amazonaws.com/k?X-Amz-Security-Token=FwoG%2F" + hidden + "%3D%3D&X-Amz-Date=20261122T100000Z: refused",
		"lower case":          "https://h/?x-amz-signature=" + hidden,
		"escaped by JSON":     `{"url":"https://h/?a=1\u0026X-Amz-Signature=` + hidden + `\u0026b=2"}`,
		"escaped by HTML":     "https://h/?a=1&amp;X-Amz-Signature=" + hidden + "&amp;b=2",
		"a URL in a URL":      "https://proxy/?to=https%3A%2F%2Fh%2F%3FX-Amz-Signature%3D" + hidden,
		"a header":            "Authorization: AWS4-HMAC-SHA256 Credential=AKIA" + hidden + "/20261122, SignedHeaders=host, Signature=" + hidden,
		"a header as a field": `{"X-Amz-Security-Token": "` + hidden + `"}`,
		"version 2":           "https://b.s3.amazonaws.com/k?AWSAccessKeyId=AKIA&Signature=" + hidden + "&Expires=1",
		"user and password":   "Post https://user:" + hidden + "@collector:4318/v1/traces: EOF",
		"a token as user":     "clone https://" + hidden + "@github.com/a/b",
		"an at in a password": "https://user:p@" + hidden + "@host/path",
		"a query's token":     "https://hooks/x?team=a&token=" + hidden + " is 404",
		"bearer":              "Authorization: Bearer eyJhbGciOi" + hidden + "hIdDeNhIdDeN",
		"divided by NUL":      "https://h/?X-Amz-Sig\x00nature=" + hidden,
		"divided by colours":  "https://user\x1b:" + hidden + "\x07@host/",
		"cut inside":          strings.Repeat("x", failure.MaxRemote-20) + "?X-Amz-Signature=" + strings.Repeat(hidden, 100),
	}
}

func TestRemote_Secrets_AreRedacted(t *testing.T) {
	t.Parallel()
	for name, text := range secretTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, got := range []string{failure.Line(text), failure.Lines(text), failure.Remote(errors.New(text)).Error()} {
				require.NotContains(t, got, hidden)
				require.Contains(t, got, "***", "the cut is marked")
				require.Equal(t, got, failure.Redact(got), "twice")
			}
		})
	}
}

// What is no secret stays as it is: a reader needs it.
func TestRedact_WhatIsNoSecret_Stays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "no such volume: vol-1", "store 4 at 10.0.0.1:20160 does not answer", "s3://backups/prod?region=us-west-2&endpoint=http://minio:9000",
		`Get "https://b.s3.amazonaws.com/k?list-type=2&prefix=locks%2F": dial tcp 10.0.0.1:443: connection refused`,
		"mail ops@example.com", "user: prod, token of the lock: 3", "ClientToken=tisnap-1 was used before", "the bearer of the lock", "a signature of the seal is missing",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, text, failure.Redact(text))
		})
	}
	require.Equal(t, "Get https://***@h/k?a=1&X-Amz-Signature=***&b=2: EOF", failure.Redact("Get https://u:p@h/k?a=1&X-Amz-Signature=s&b=2: EOF"))
}
