// Package typed is the part of Kubernetes' typed API that tisnap uses. client-go's own clientset links the types of
// every API group, in each of their versions, into the program.
package typed

import (
	"context"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// Client is a client of the API server.
type Client struct {
	core, apps, authorization, storage, networking, discovery, batch rest.Interface

	parameters runtime.ParameterCodec
}

var quiet sync.Once

// Quiet silences klog for the whole process, because client-go would print to the terminal. klog's logger must not be
// set while another goroutine uses a client, so the first client has it done, and whoever reads a kubeconfig before.
func Quiet() { quiet.Do(func() { klog.SetLogger(logr.Discard()) }) }

// New makes a client without contacting the server. All of its requests share one limit, that of the configuration. It
// silences klog.
func New(config *rest.Config, http *http.Client) (*Client, error) {
	Quiet()
	scheme := runtime.NewScheme()
	groups := runtime.NewSchemeBuilder(corev1.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme,
		storagev1.AddToScheme, networkingv1.AddToScheme, discoveryv1.AddToScheme, batchv1.AddToScheme)
	if err := groups.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	own := *config
	if own.RateLimiter == nil && own.QPS > 0 {
		own.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(own.QPS, own.Burst)
	}
	codecs := serializer.NewCodecFactory(scheme)
	own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
	c := &Client{parameters: runtime.NewParameterCodec(scheme)}
	for _, g := range []struct {
		client  *rest.Interface
		version schema.GroupVersion
	}{
		{&c.core, corev1.SchemeGroupVersion},
		{&c.apps, appsv1.SchemeGroupVersion},
		{&c.authorization, authorizationv1.SchemeGroupVersion},
		{&c.storage, storagev1.SchemeGroupVersion},
		{&c.networking, networkingv1.SchemeGroupVersion},
		{&c.discovery, discoveryv1.SchemeGroupVersion},
		{&c.batch, batchv1.SchemeGroupVersion},
	} {
		of := own
		of.GroupVersion, of.APIPath = &g.version, "/apis"
		if g.version.Group == "" {
			of.APIPath = "/api"
		}
		client, err := rest.RESTClientForConfigAndClient(&of, http)
		if err != nil {
			return nil, err
		}
		*g.client = client
	}
	return c, nil
}

type optional struct{}

// Optional is the context of requests whose refusal need not be retried, as the caller can do without an answer.
func Optional(ctx context.Context) context.Context { return context.WithValue(ctx, optional{}, true) }

// IsOptional reports whether Optional made the context.
func IsOptional(ctx context.Context) bool { return ctx.Value(optional{}) != nil }

// object is what client-go's generic client is of.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// listed is what client-go's generic client lists.
type listed[L any] interface {
	*L
	runtime.Object
}

func listing[T, L any, PT object[T], PL listed[L]](
	c *Client, group rest.Interface, resource, namespace string,
) *gentype.ClientWithList[PT, PL] {
	return gentype.NewClientWithList[PT, PL](resource, group, c.parameters, namespace,
		func() PT { return new(T) }, func() PL { return new(L) }, gentype.PrefersProtobuf[PT]())
}

// CoreREST sends any request to the core group.
func (c *Client) CoreREST() rest.Interface { return c.core }

// Pods are those of a namespace.
func (c *Client) Pods(namespace string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return listing[corev1.Pod, corev1.PodList](c, c.core, "pods", namespace)
}

// PodLog is the request for a pod's log.
func (c *Client) PodLog(namespace, name string, options *corev1.PodLogOptions) *rest.Request {
	return c.core.Get().Namespace(namespace).Name(name).Resource("pods").SubResource("log").
		VersionedParams(options, c.parameters)
}

// Events are those of a namespace.
func (c *Client) Events(namespace string) *gentype.ClientWithList[*corev1.Event, *corev1.EventList] {
	return listing[corev1.Event, corev1.EventList](c, c.core, "events", namespace)
}

// Secrets are those of a namespace.
func (c *Client) Secrets(namespace string) *gentype.ClientWithList[*corev1.Secret, *corev1.SecretList] {
	return listing[corev1.Secret, corev1.SecretList](c, c.core, "secrets", namespace)
}

// ConfigMaps are those of a namespace.
func (c *Client) ConfigMaps(namespace string) *gentype.ClientWithList[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return listing[corev1.ConfigMap, corev1.ConfigMapList](c, c.core, "configmaps", namespace)
}

// ResourceQuotas are those of a namespace.
func (c *Client) ResourceQuotas(
	namespace string,
) *gentype.ClientWithList[*corev1.ResourceQuota, *corev1.ResourceQuotaList] {
	return listing[corev1.ResourceQuota, corev1.ResourceQuotaList](c, c.core, "resourcequotas", namespace)
}

// PersistentVolumeClaims are those of a namespace.
func (c *Client) PersistentVolumeClaims(
	namespace string,
) *gentype.ClientWithList[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return listing[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](c, c.core, "persistentvolumeclaims",
		namespace)
}

// PersistentVolumes are those of the Kubernetes cluster.
func (c *Client) PersistentVolumes() *gentype.ClientWithList[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return listing[corev1.PersistentVolume, corev1.PersistentVolumeList](c, c.core, "persistentvolumes", "")
}

// Nodes are those of the Kubernetes cluster.
func (c *Client) Nodes() *gentype.ClientWithList[*corev1.Node, *corev1.NodeList] {
	return listing[corev1.Node, corev1.NodeList](c, c.core, "nodes", "")
}

// Namespaces are those of the Kubernetes cluster.
func (c *Client) Namespaces() *gentype.ClientWithList[*corev1.Namespace, *corev1.NamespaceList] {
	return listing[corev1.Namespace, corev1.NamespaceList](c, c.core, "namespaces", "")
}

// StatefulSets are those of a namespace.
func (c *Client) StatefulSets(namespace string) *gentype.ClientWithList[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return listing[appsv1.StatefulSet, appsv1.StatefulSetList](c, c.apps, "statefulsets", namespace)
}

// Jobs are those of a namespace.
func (c *Client) Jobs(namespace string) *gentype.ClientWithList[*batchv1.Job, *batchv1.JobList] {
	return listing[batchv1.Job, batchv1.JobList](c, c.batch, "jobs", namespace)
}

// StorageClasses are those of the Kubernetes cluster.
func (c *Client) StorageClasses() *gentype.ClientWithList[*storagev1.StorageClass, *storagev1.StorageClassList] {
	return listing[storagev1.StorageClass, storagev1.StorageClassList](c, c.storage, "storageclasses", "")
}

// NetworkPolicies are those of a namespace.
func (c *Client) NetworkPolicies(
	namespace string,
) *gentype.ClientWithList[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
	return listing[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](c, c.networking, "networkpolicies",
		namespace)
}

// EndpointSlices are those of a namespace.
func (c *Client) EndpointSlices(
	namespace string,
) *gentype.ClientWithList[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return listing[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c, c.discovery, "endpointslices",
		namespace)
}

// SelfSubjectAccessReviews are questions about what this client may do.
func (c *Client) SelfSubjectAccessReviews() *gentype.Client[*authorizationv1.SelfSubjectAccessReview] {
	return gentype.NewClient("selfsubjectaccessreviews", c.authorization, c.parameters, "",
		func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		gentype.PrefersProtobuf[*authorizationv1.SelfSubjectAccessReview]())
}
