package objstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// listener is S3 and STS: it keeps the last write and the last assumed role.
type listener struct {
	*httptest.Server

	mu    sync.Mutex
	put   *http.Request
	roles []string // "action role external-id token"
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPut {
		l.put = r.Clone(r.Context())
		w.Header().Set("ETag", `"1"`)
		return
	}
	action := r.FormValue("Action")
	l.roles = append(l.roles, strings.TrimSpace(strings.Join([]string{action, r.FormValue("RoleArn"), r.FormValue("ExternalId"), r.FormValue("WebIdentityToken")}, " ")))
	fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
		`<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action)
}

func (l *listener) write(t *testing.T, cfg objstore.Config) *http.Request {
	t.Helper()
	cfg.Endpoint, cfg.Region = l.URL, "us-west-2"
	_, err := open(t, "s3://"+bucket+"/p", cfg).Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put
}

func TestS3Create_SettingsOfObjects_AreSent(t *testing.T) {
	t.Parallel()
	l := listen(t)
	plain := l.write(t, objstore.Config{})
	require.Equal(t, "/"+bucket+"/p/a", plain.URL.Path)
	for _, header := range []string{"X-Amz-Storage-Class", "X-Amz-Acl", "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"} {
		require.NotContains(t, plain.Header, header)
	}
	got := l.write(t, objstore.Config{Put: objstore.PutOptions{StorageClass: "STANDARD_IA", ACL: "private", Encryption: "aws:kms", KMSKey: "alias/backup"}})
	require.Equal(t, "STANDARD_IA", got.Header.Get("X-Amz-Storage-Class"))
	require.Equal(t, "private", got.Header.Get("X-Amz-Acl"))
	require.Equal(t, "aws:kms", got.Header.Get("X-Amz-Server-Side-Encryption"))
	require.Equal(t, "alias/backup", got.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
}

// Credentials come from the SDK's chain: these are the ways of a pod.
func TestS3_CredentialsOfAPod(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("jwt"), 0o600))
	for name, c := range map[string]struct {
		env  map[string]string
		cfg  objstore.Config
		want string // of the signature
		role string
	}{
		"keys with a session token": {
			env:  map[string]string{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "session"},
			want: "AKIDENV",
		},
		"a web identity": {
			env:  map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_WEB_IDENTITY_TOKEN_FILE": token},
			want: "ASIAROLE", role: "AssumeRoleWithWebIdentity arn:aws:iam::1:role/pod  jwt",
		},
		"a role of its own": {
			env:  map[string]string{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "s"},
			cfg:  objstore.Config{RoleARN: "arn:aws:iam::2:role/backup", ExternalID: "them"},
			want: "ASIAROLE", role: "AssumeRole arn:aws:iam::2:role/backup them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			for _, unset := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE"} {
				t.Setenv(unset, c.env[unset])
			}
			t.Setenv("AWS_ENDPOINT_URL_STS", l.URL)
			got := l.write(t, c.cfg)
			require.Contains(t, got.Header.Get("Authorization"), "Credential="+c.want+"/")
			require.Equal(t, "session", got.Header.Get("X-Amz-Security-Token"))
			if c.role == "" {
				require.Empty(t, l.roles)
			} else {
				require.Equal(t, []string{c.role}, l.roles)
			}
		})
	}
}

// A server without ranges would have each block of an archive read with the whole object around it.
func TestGetRange_ServerIgnoresRange_Fails(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for name, body := range map[string]string{"longer": "0123456789", "as long as the range": "0123", "shorter": "01"} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			store, err := objstore.Open(t.Context(), "s3://bucket/prefix", objstore.Config{Region: "us-west-2", Endpoint: server.URL})
			require.NoError(t, err)
			defer store.(interface{ Close() }).Close()
			err = store.GetRange(t.Context(), "a", 3, make([]byte, 4))
			require.True(t, failure.Is(err, failure.Unready), "%v", err)
			require.ErrorContains(t, err, "ignores Range")
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
}

// A proxy that sends a range in chunks leaves out how long it is.
func TestGetRange_AnswerWithoutLength_FillsTheBuffer(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 3-6/10")
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "3456")
	}))
	defer server.Close()
	store, err := objstore.Open(t.Context(), "s3://bucket/prefix", objstore.Config{Region: "us-west-2", Endpoint: server.URL})
	require.NoError(t, err)
	defer store.(interface{ Close() }).Close()
	into := []byte("old!")
	require.NoError(t, store.GetRange(t.Context(), "a", 3, into))
	require.Equal(t, "3456", string(into))
}

// A connection that breaks in the middle of a body is no end of it: half a journal could be read as a whole one.
func TestS3Get_BodyCutOnce_IsReadAgain(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	const body = "line 1\nline 2\n"
	for name, read := range map[string]func(context.Context, objstore.Store) (string, error){
		"whole": func(ctx context.Context, s objstore.Store) (string, error) {
			got, _, err := s.Get(ctx, "a")
			return string(got), err
		},
		"range": func(ctx context.Context, s objstore.Store) (string, error) {
			into := make([]byte, len(body))
			err := s.GetRange(ctx, "a", 0, into)
			return string(into), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				if r.Header.Get("Range") != "" {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(body)-1, len(body)))
					w.WriteHeader(http.StatusPartialContent)
				}
				if asked.Add(1) == 1 {
					_, _ = io.WriteString(w, body[:7]) // the server then closes the connection, as the body is too short
					return
				}
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			store, err := objstore.Open(t.Context(), "s3://bucket/prefix", objstore.Config{Region: "us-west-2", Endpoint: server.URL})
			require.NoError(t, err)
			defer store.(interface{ Close() }).Close()
			got, err := read(t.Context(), store)
			require.NoError(t, err)
			require.Equal(t, body, got)
			require.EqualValues(t, 2, asked.Load())
		})
	}
}
