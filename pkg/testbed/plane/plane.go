// Package plane runs a real control plane for the tests: etcd, kube-apiserver with RBAC, kube-controller-manager and
// kube-scheduler, on loopback, built by hack/controlplane/build.sh. There is no kubelet: pods stay what the tests make of
// them.
package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// startTries is how often all is started, as a port that was free may be taken by another process meanwhile.
	startTries = 3
	startLimit = 4 * time.Minute
	binderSync = 15 * time.Second // the default of kube-controller-manager
)

// Config of a Plane.
type Config struct {
	Program string // that hack/controlplane/build.sh has made
	CRDs    string // folder of CustomResourceDefinitions, which are installed
	Dir     string // that is there and empty: for data, keys, kubeconfigs and logs
	// BinderSync is how often the binder looks at all claims and volumes, whether they have changed or not; 0 is Kubernetes'
	// own 15 s.
	BinderSync time.Duration
}

// Plane is a control plane that runs.
type Plane struct {
	cfg       Config
	server    string // URL
	processes []*process
	apiserver []string // its command, to start it again
}

// Start starts everything and returns when the API server serves what the definitions name and a new namespace has its
// service account, in four minutes at most. What was started ends when Stop is called, and in any case with this process.
func Start(cfg Config) (*Plane, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := writeCredentials(cfg.Dir); err != nil {
		return nil, fmt.Errorf("write credentials: %w", err)
	}
	var last error
	for range startTries {
		p := &Plane{cfg: cfg}
		if last = p.start(ctx); last == nil {
			return p, nil
		}
		last = errors.Join(last, p.Stop())
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start the control plane: %w", last)
}

func (p *Plane) start(ctx context.Context) error {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(p.cfg.Dir, "etcd-")
	if err != nil {
		return err
	}
	etcd, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	p.server = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	// What is kept lives as long as the test: nothing has to reach the disk.
	if err := p.run("etcd", "--data-dir="+data, "--unsafe-no-fsync", "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--log-level=warn"); err != nil {
		return err
	}
	p.apiserver = apiserverArguments(p.cfg.Dir, etcd, ports[2])
	if err := p.run(apiserver, p.apiserver...); err != nil {
		return err
	}
	if err := p.await(ctx, p.ready); err != nil {
		return err
	}
	for _, user := range users() {
		if err := p.writeKubeconfig(user); err != nil {
			return err
		}
	}
	if err := p.run("kube-controller-manager", "--kubeconfig="+p.Kubeconfig("controllers"), "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+filepath.Join(p.cfg.Dir, accountKey), "--root-ca-file="+filepath.Join(p.cfg.Dir, serving),
		"--kube-api-qps=200", "--kube-api-burst=400", "--controllers="+controllers(),
		"--pvclaimbinder-sync-period="+cmp.Or(p.cfg.BinderSync, binderSync).String()); err != nil {
		return err
	}
	if err := p.run("kube-scheduler", "--kubeconfig="+p.Kubeconfig("system:kube-scheduler"), "--leader-elect=false", "--secure-port=0"); err != nil {
		return err
	}
	return p.install(ctx)
}

// Kubeconfig is the path of a user's kubeconfig: "admin" may do everything.
func (p *Plane) Kubeconfig(user string) string {
	return filepath.Join(p.cfg.Dir, fileName(user)+".kubeconfig")
}

// Server is the API server's URL.
func (p *Plane) Server() string { return p.server }

// Authority is the path of the certificates that the API server is trusted by.
func (p *Plane) Authority() string { return filepath.Join(p.cfg.Dir, serving) }

// KillAPIServer ends the API server as a crash does. Nothing answers at its address until StartAPIServer.
func (p *Plane) KillAPIServer() error {
	at := slices.IndexFunc(p.processes, func(o *process) bool { return o.name == apiserver })
	if at < 0 {
		return errors.New("no API server runs")
	}
	killed := p.processes[at]
	p.processes = slices.Delete(p.processes, at, at+1)
	return killed.stop()
}

// StartAPIServer starts the API server again, at the same address. It returns when it serves.
func (p *Plane) StartAPIServer(ctx context.Context) error {
	if err := p.run(apiserver, p.apiserver...); err != nil {
		return err
	}
	return p.await(ctx, p.ready)
}

// Stop ends what was started, and waits for it.
func (p *Plane) Stop() error {
	var all error
	for _, o := range slices.Backward(p.processes) {
		all = errors.Join(all, o.stop())
	}
	p.processes = nil
	return all
}

// run starts one part; its log is in the folder.
func (p *Plane) run(name string, args ...string) error {
	o, err := startProcess(p.cfg.Program, p.cfg.Dir, name, args)
	if err == nil {
		p.processes = append(p.processes, o)
	}
	return err
}

// await asks until ask answers without error. It ends early if a part has ended.
func (p *Plane) await(ctx context.Context, ask func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		for _, o := range p.processes {
			if o.ended() {
				return fmt.Errorf("%s has ended: %s", o.name, o.lastWords())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
