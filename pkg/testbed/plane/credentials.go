package plane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	apiserver  = "kube-apiserver"
	accountKey = "service-accounts.key"
	tokens     = "tokens.csv"
	serving    = "apiserver.crt" // that the API server makes for itself, with its authority
)

// users are those with a kubeconfig. The scheduler has the role that every cluster has for it; the controllers, which run
// under a role each elsewhere, are one user here.
func users() []string { return []string{"admin", "controllers", "system:kube-scheduler"} }

func fileName(user string) string { return strings.ReplaceAll(user, ":", "-") }

// apiserverArguments are those of a server with RBAC and the admission plugins that are on by default, among them quotas, Pod
// Security and ValidatingAdmissionPolicy.
func apiserverArguments(dir, etcd string, port int) []string {
	return []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + dir, "--authorization-mode=RBAC", "--token-auth-file=" + filepath.Join(dir, tokens),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + filepath.Join(dir, accountKey),
		"--service-account-signing-key-file=" + filepath.Join(dir, accountKey), "--service-cluster-ip-range=10.96.0.0/16",
		"--api-audiences=https://kubernetes.default.svc",
	}
}

// controllers are those that a backup, a restore and the objects in manifests/ have to do with.
func controllers() string {
	return strings.Join([]string{
		"namespace-controller", "serviceaccount-controller", "statefulset-controller", "garbage-collector-controller",
		"persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
		"resourcequota-controller", "job-controller", "ttl-after-finished-controller", "cronjob-controller", "disruption-controller", "pod-garbage-collector-controller",
	}, ",")
}

// writeCredentials makes the key that signs service accounts' tokens and a token for each user.
func writeCredentials(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	var rows strings.Builder
	for _, user := range users() {
		token := make([]byte, 16)
		if _, err := rand.Read(token); err != nil {
			return err
		}
		group := ""
		if !strings.HasPrefix(user, "system:") {
			group = `,"system:masters"`
		}
		fmt.Fprintf(&rows, "%s,%s,%s%s\n", hex.EncodeToString(token), user, user, group)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, accountKey), pem.EncodeToMemory(block), 0o600),
		os.WriteFile(filepath.Join(dir, tokens), []byte(rows.String()), 0o600),
	)
}

func (p *Plane) token(user string) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.cfg.Dir, tokens))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), ","); fields[1] == user {
			return fields[0], nil
		}
	}
	return "", fmt.Errorf("user %s has no token", user)
}

func (p *Plane) writeKubeconfig(user string) error {
	token, err := p.token(user)
	if err != nil {
		return err
	}
	return p.WriteKubeconfig(p.Kubeconfig(user), token, "default")
}

// WriteKubeconfig writes a kubeconfig for whoever has the token.
func (p *Plane) WriteKubeconfig(path, token, namespace string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: plane
clusters:
- name: plane
  cluster: {server: %q, certificate-authority: %q}
users:
- name: plane
  user: {token: %q}
contexts:
- name: plane
  context: {cluster: plane, user: plane, namespace: %q}
`, p.server, p.Authority(), token, namespace), 0o600)
}
