package br_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// witness is the testbed's S3 and an STS, and records who wrote, and how.
type witness struct {
	*httptest.Server

	mu    sync.Mutex
	puts  []http.Header
	roles []string // "action role token"
}

func newWitness(t *testing.T, p *place) *witness {
	t.Helper()
	w := &witness{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Method == http.MethodPost {
			w.assume(rw, r)
			return
		}
		if r.Method == http.MethodPut {
			w.mu.Lock()
			w.puts = append(w.puts, r.Header.Clone())
			w.mu.Unlock()
		}
		p.S3.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// assume answers as STS does.
func (w *witness) assume(rw http.ResponseWriter, r *http.Request) {
	action := r.FormValue("Action")
	w.mu.Lock()
	w.roles = append(w.roles, action+" "+r.FormValue("RoleArn")+" "+r.FormValue("WebIdentityToken"))
	w.mu.Unlock()
	fmt.Fprintf(rw, `<%[1]sResponse><%[1]sResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
		`<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action)
}

// The credentials of a pod come by its environment; every object is written as the flags require.
func TestStorage_CredentialsOfThePod_AndEncryption(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("jwt"), 0o600))
	for name, c := range map[string]struct {
		env                  []string
		key, session, assume string
	}{
		"secret keys": {[]string{"AWS_ACCESS_KEY_ID=AKIDENV", "AWS_SECRET_ACCESS_KEY=s"}, "AKIDENV", "", ""},
		"keys with a session token": {
			[]string{"AWS_ACCESS_KEY_ID=AKIDENV", "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=token"}, "AKIDENV", "token", "",
		},
		"a web identity": {
			[]string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_ROLE_ARN=arn:aws:iam::1:role/pod", "AWS_WEB_IDENTITY_TOKEN_FILE=" + token},
			"ASIAROLE", "session", "AssumeRoleWithWebIdentity arn:aws:iam::1:role/pod jwt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			w := newWitness(t, p)
			b := p.launchWith(t, append(c.env, "AWS_ENDPOINT_URL_STS="+w.URL), "backup", "full", "--type=aws-ebs", "--volume-file="+p.volumeFile(),
				"--pd="+p.pd(), "--storage="+storage, "--s3.endpoint="+w.URL, "--s3.sse=aws:kms", "--s3.sse-kms-key-id", "alias/backup",
				"--s3.storage-class=STANDARD_IA", "--s3.acl=private")
			require.NoError(t, b.cmd.Wait(), &b.out)
			require.NotContains(t, b.out.String(), "jwt")
			w.mu.Lock()
			defer w.mu.Unlock()
			require.NotEmpty(t, w.puts)
			for _, h := range w.puts {
				require.Contains(t, h.Get("Authorization"), "Credential="+c.key+"/")
				require.Equal(t, c.session, h.Get("X-Amz-Security-Token"))
				require.Equal(t, "aws:kms", h.Get("X-Amz-Server-Side-Encryption"))
				require.Equal(t, "alias/backup", h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
				require.Equal(t, "STANDARD_IA", h.Get("X-Amz-Storage-Class"))
				require.Equal(t, "private", h.Get("X-Amz-Acl"))
			}
			for _, role := range w.roles {
				require.Equal(t, c.assume, role)
			}
			require.Equal(t, c.assume == "", len(w.roles) == 0)
			require.NoError(t, p.backupMeta(t).Validate())
		})
	}
}

// A folder is a storage, too, in all of br's spellings.
func TestStorage_Folder_IsBackedUpInto(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := t.TempDir()
	for i, scheme := range []string{"local://", "file://", ""} {
		folder := filepath.Join(dir, strings.Repeat("f", i+1))
		require.NoError(t, os.Mkdir(folder, 0o700))
		b := p.backup(t, "--storage="+scheme+folder)
		require.Equal(t, brcompat.ExitDone, b.ends(t), b.out())
		doc, err := os.ReadFile(filepath.Join(folder, manifest.BRBackupMeta))
		require.NoError(t, err)
		d, err := manifest.ParseBR(doc)
		require.NoError(t, err)
		require.NoError(t, d.Validate())
		require.Equal(t, b.resolvedTS(t), d.Cluster.ResolvedTS)
	}
}
