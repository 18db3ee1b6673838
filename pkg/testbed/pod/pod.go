// Package pod runs a program with the files, environment and names that a process in a pod of Kubernetes has: its service
// account's folder at the path where client-go looks, KUBERNETES_SERVICE_HOST, names of the cluster's DNS, and a root that cannot
// be written. It is this machine's process all the same: only its mounts are its own, so that nothing of it is seen outside.
package pod

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Config of a Pod.
type Config struct {
	Dir       string   // that is there and empty
	Server    string   // URL of the API server
	Authority []byte   // certificates that it is trusted by, in PEM
	Namespace string   // of the pod
	Token     string   // of its service account
	Hosts     []string // names that lead to 127.0.0.1, as the cluster's DNS would resolve them; no others resolve
}

// Pod is what the processes of one pod share.
type Pod struct {
	dir     string
	env     []string
	content map[string][]byte // of the service account's folder, except for the token
	turn    int
}

// enter has the account's folder and the names be where a pod has them, lets nothing of the root be written, as the pods of
// manifests/ have it, and becomes the program.
const enter = `set -e
mount -t tmpfs tisnap-pod /var/run
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$1" /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$2" /etc/hosts
mount -o remount,bind,ro /
shift 2
exec "$@"`

// New writes the files.
func New(cfg Config) (*Pod, error) {
	server, err := url.Parse(cfg.Server)
	if err != nil {
		return nil, err
	}
	p := &Pod{dir: cfg.Dir, content: map[string][]byte{"ca.crt": cfg.Authority, "namespace": []byte(cfg.Namespace)}}
	for _, value := range os.Environ() {
		name, _, _ := strings.Cut(value, "=")
		if name != "KUBECONFIG" && name != "HOME" && name != "POD_NAMESPACE" && !strings.HasPrefix(name, "KUBERNETES_") {
			p.env = append(p.env, value)
		}
	}
	p.env = append(p.env, "HOME=/", "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	hosts := "127.0.0.1 localhost\n"
	for _, name := range cfg.Hosts {
		hosts += "127.0.0.1 " + name + "\n"
	}
	if err := os.WriteFile(p.hosts(), []byte(hosts), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.account(), 0o700); err != nil {
		return nil, err
	}
	for _, file := range []string{"token", "ca.crt", "namespace"} {
		if err := os.Symlink(filepath.Join(current, file), filepath.Join(p.account(), file)); err != nil {
			return nil, err
		}
	}
	return p, p.Rotate(cfg.Token)
}

// current is the link to the folder with what is valid now.
const current = "..data"

func (p *Pod) hosts() string   { return filepath.Join(p.dir, "hosts") }
func (p *Pod) account() string { return filepath.Join(p.dir, "serviceaccount") }

// Rotate gives the pod another token as the kubelet does: in a folder of its own, to which a link is then moved. Processes that
// run see it, too.
func (p *Pod) Rotate(token string) error {
	p.turn++
	next := fmt.Sprintf("..turn-%d", p.turn)
	folder := filepath.Join(p.account(), next)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for file, text := range p.content {
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "token"), []byte(token), 0o600); err != nil {
		return err
	}
	link := filepath.Join(p.account(), "..data_tmp")
	if err := os.Symlink(next, link); err != nil {
		return err
	}
	return os.Rename(link, filepath.Join(p.account(), current))
}

// Command is a program that is to run in the pod. Its environment is this process's, except for what names Kubernetes, and may be
// added to. ctx's end kills it.
func (p *Pod) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := append(unshare(), "sh", "-c", enter, "pod", p.account(), p.hosts(), program)
	command = append(command, args...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // what the tests run
	cmd.Env = slices.Clone(p.env)
	return cmd
}

// unshare begins the command of a process with mounts of its own, which only root may have, or root of a user namespace.
func unshare() []string {
	command := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		command = append(command, "--map-root-user")
	}
	return command
}

// Possible returns why this machine cannot run a pod, or nil: it starts one, since a machine may refuse any of its mounts alone.
func Possible(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tisnap-pod-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := New(Config{Dir: dir, Server: "https://127.0.0.1"})
	if err != nil {
		return err
	}
	if out, err := p.Command(ctx, "true").CombinedOutput(); err != nil {
		return fmt.Errorf("this machine lets no process have mounts of its own: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
