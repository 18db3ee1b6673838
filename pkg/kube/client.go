package kube

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// Config is how to reach the API server, in kubectl's terms. The zero value follows KUBECONFIG, then ~/.kube/config,
// then the service account of the pod.
type Config struct {
	Kubeconfig string // path; "" for the default rules
	Context    string // "" for the current one
	Namespace  string // "" for the context's
	AsUser     string // --as
	AsUID      string // --as-uid
	AsGroups   []string
	// Timeout bounds each request; 0 is 30 s. A request ends with its context in any case.
	Timeout time.Duration
	// UserAgent is "tisnap" if empty.
	UserAgent string
	// ReadClientSecret reads a TLS cluster's client certificate from its secret because no files were given: DryRun
	// then refuses a target with an unusable secret.
	ReadClientSecret bool
	// Forwards reports whether pods are, or will be, reached by port forwards, so that Allowed requires that permission
	// too; nil means no. It is called only if the permission is missing.
	Forwards func(context.Context) bool
	// Patience is how long a refusal (401, 403) must persist before it counts; 0 is 5 s.
	Patience time.Duration
	// BindPatience is how long to wait for a new PV to be Available before its claim is created anyway; 0 is 10 s.
	BindPatience time.Duration
}

const (
	defaultTimeout = 30 * time.Second
	// A restore of hundreds of stores writes a thousand objects. client-go's default of 5 per second would take
	// minutes; the server's priority and fairness throttles excessive clients.
	requestsPerSecond = 100
	requestBurst      = 200
	// parallelRequests bounds what one method has in flight.
	parallelRequests = 16
)

// Client is the adapter: it implements Restorer and Handles. It is safe for concurrent use.
type Client struct {
	core      *typed.Client
	dynamic   dynamic.Interface
	secrets   metadata.Getter // metadata only: ClientTLS alone reads a secret's contents
	http      *http.Client
	config    *rest.Config // for upgraded connections
	namespace string
	server    string
	patience  time.Duration
	forwards  func(context.Context) bool
	inside    bool // with the service account of a pod
	// clientSecret is Config.ReadClientSecret.
	clientSecret bool
	// bindPatience is Config.BindPatience.
	bindPatience time.Duration
	// drivers caches the CSI driver of each StorageClass; "" if the class has none.
	drivers sync.Map
}

var (
	_ Restorer = (*Client)(nil)
	_ Handles  = (*Client)(nil)
)

// Open reads the kubeconfig and returns a client, without contacting the server. A missing or invalid kubeconfig, or an
// unknown context, is a Usage error. It silences klog.
func Open(cfg Config) (*Client, error) {
	typed.Quiet()
	loader := loaderOf(cfg)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	// client-go drops impersonation from an in-cluster configuration: requests meant for another user would run as the
	// pod.
	config.Impersonate.UserName = cmp.Or(config.Impersonate.UserName, cfg.AsUser)
	config.Impersonate.UID = cmp.Or(config.Impersonate.UID, cfg.AsUID)
	if len(config.Impersonate.Groups) == 0 {
		config.Impersonate.Groups = cfg.AsGroups
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	return open(config, namespace, cfg)
}

// loaderOf reads a kubeconfig by kubectl's rules.
func loaderOf(cfg Config) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = cfg.Kubeconfig
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{CurrentContext: cfg.Context}
	overrides.Context.Namespace = cfg.Namespace
	overrides.AuthInfo.Impersonate = cfg.AsUser
	overrides.AuthInfo.ImpersonateUID = cfg.AsUID
	overrides.AuthInfo.ImpersonateGroups = cfg.AsGroups
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// Namespace returns what Client.Namespace of an opened client would, and fails where Open does: without a kubeconfig
// and outside any pod, client-go would return "default". It makes no call either.
func Namespace(cfg Config) (string, error) {
	loader := loaderOf(cfg)
	if _, err := loader.ClientConfig(); err != nil {
		return "", kubeerr.Usage(err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return "", kubeerr.Usage(err)
	}
	return namespace, nil
}

func open(config *rest.Config, namespace string, cfg Config) (*Client, error) {
	config.Timeout = cfg.Timeout
	if config.Timeout == 0 {
		config.Timeout = defaultTimeout
	}
	config.UserAgent = cfg.UserAgent
	if config.UserAgent == "" {
		config.UserAgent = "tisnap"
	}
	config.QPS, config.Burst = requestsPerSecond, requestBurst
	config.WarningHandler = rest.NoWarnings{}
	inside := config.BearerTokenFile == serviceAccountFile
	rereadToken(config)
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	c := &Client{
		http: shared, config: config, clientSecret: cfg.ReadClientSecret, namespace: namespace, forwards: cfg.Forwards,
		inside: inside, server: config.Host,
		patience: cmp.Or(cfg.Patience, refusalPatience), bindPatience: cmp.Or(cfg.BindPatience, availableWait),
	}
	// Outermost, so that a credential plugin can fetch a new token for each try.
	shared.Transport = &refusalTransport{next: askFirst{shared.Transport}, patience: c.patience, confirm: c.may}
	if c.core, err = typed.New(config, shared); err != nil {
		return nil, kubeerr.Usage(err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, shared); err != nil {
		return nil, kubeerr.Usage(err)
	}
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), shared)
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	c.secrets = meta.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	return c, nil
}

// serviceAccountFile is a pod's token file, as client-go's in-cluster configuration has it.
const serviceAccountFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// Inside reports whether this process is a pod of the Kubernetes cluster that it talks to, so that cluster DNS names
// are reachable directly.
func (c *Client) Inside() bool { return c.inside }

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Namespace returns the namespace for names without one: the config's, or else the kubeconfig context's.
func (c *Client) Namespace() string { return c.namespace }
