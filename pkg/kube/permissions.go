package kube

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// permission is a verb on a resource; a subresource follows a slash.
type permission struct{ verb, group, resource string }

// forwardPermission is what a port forward over SPDY needs.
func forwardPermission() permission { return permission{"create", "", "pods/portforward"} }

// permissions lists every permission that a restore uses, so that a missing one is found before anything is created.
// It has exactly those that this package needs: a role needs no more and no less.
func (generation1) permissions() []permission {
	var all []permission
	add := func(group, resource string, verbs ...string) {
		for _, v := range verbs {
			all = append(all, permission{v, group, resource})
		}
	}
	add(operator1.Resource().Group, "tidbclusters", "get", "list", "create", "update", "delete")
	add(operator2.Group(), operator2.Clusters, "get", "list")
	add("apps", "statefulsets", "list", "delete")
	add("", "pods", "list", "delete")
	add("", "persistentvolumeclaims", "get", "list", "create", "update", "delete")
	add("", "persistentvolumes", "get", "list", "create", "update", "delete")
	add("", "resourcequotas", "list")
	add("", "nodes", "get")
	add("storage.k8s.io", "storageclasses", "get")
	return all
}

// permissions lists every permission that a restore uses, as that of TiDB Operator 1.x does.
func (generation2) permissions() []permission {
	var all []permission
	add := func(group, resource string, verbs ...string) {
		for _, v := range verbs {
			all = append(all, permission{v, group, resource})
		}
	}
	for _, resource := range append([]string{operator2.Clusters, operator2.TiKVs}, operator2.Groups()...) {
		add(operator2.Group(), resource, "get", "list", "create", "update", "delete")
	}
	add(operator1.Resource().Group, "tidbclusters", "get", "list")
	add("", "pods", "list", "delete")
	add("", "persistentvolumeclaims", "get", "list", "create", "update", "delete")
	add("", "persistentvolumes", "get", "list", "create", "update", "delete")
	add("", "resourcequotas", "list")
	add("", "nodes", "get")
	add("storage.k8s.io", "storageclasses", "get")
	return all
}

// allPermissions lists every permission that a restore of any source uses.
func allPermissions() []permission {
	all := generation1{}.permissions()
	for _, p := range (generation2{}).permissions() {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// backupPermissions lists every permission that a backup uses.
func backupPermissions() []permission {
	all := []permission{
		{"get", operator1.Resource().Group, "tidbclusters"},
		{"list", "", "pods"},
		{"list", "", "persistentvolumeclaims"},
		{"get", "", "persistentvolumes"},
		{"get", "", "nodes"},
		{"get", operator2.Group(), operator2.Clusters},
	}
	return append(all, groupPermissions()...)
}

// drillPermissions lists every permission that a drill uses besides those of a restore.
func drillPermissions() []permission {
	return []permission{
		{"get", "", "namespaces"}, {"list", "", "namespaces"}, {"create", "", "namespaces"},
		{"delete", "", "namespaces"},
		{"create", "", "resourcequotas"}, {"create", "networking.k8s.io", "networkpolicies"},
		{"list", "discovery.k8s.io", "endpointslices"},
		{"get", "", "pods"}, {"create", "", "pods"}, forwardPermission(),
	}
}

// fillPermissions lists every permission that a restore to volumes of a CSI driver uses besides those of a restore.
func fillPermissions() []permission {
	var all []permission
	for _, p := range JobsFill.permissions() {
		all = append(all, p.permission)
	}
	return all
}

// groupPermissions lists what a backup of a cluster of TiDB Operator 2.x reads besides its Cluster.
func groupPermissions() []permission {
	var all []permission
	for _, resource := range append(operator2.Groups(), operator2.TiKVs) {
		all = append(all, permission{"list", operator2.Group(), resource})
	}
	return all
}

// installed leaves out the permissions on resources of an Operator that is not installed. Without any Operator, all
// stay.
func (c *Client) installed(ctx context.Context, all []permission) ([]permission, error) {
	absent := map[string]bool{}
	for _, gv := range []string{operator1.GroupVersion, operator2.GroupVersion} {
		err := c.served(ctx, gv)
		switch {
		case kubeerr.NotServed(err):
			group, _, _ := strings.Cut(gv, "/")
			absent[group] = true
		case err != nil:
			return nil, failure.Annotate(err, "check permissions", gv)
		}
	}
	if len(absent) == 2 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(p permission) bool { return absent[p.group] }), nil
}

// Missing lists the permissions of a backup, or of a restore, that the caller lacks now, such as "create pods". Those
// on objects of an Operator that is not installed are not needed. Unlike Allowed, it believes the first answer.
func (c *Client) Missing(ctx context.Context, namespace string, restore bool) ([]string, error) {
	all := backupPermissions()
	if restore {
		all = allPermissions()
	}
	return c.lacking(ctx, all, namespace)
}

// MissingForDrill lists the permissions of a drill that the caller lacks now, as Missing does: also those of its
// restore, in all namespaces, as it makes its own.
func (c *Client) MissingForDrill(ctx context.Context) ([]string, error) {
	return c.lacking(ctx, slices.Concat(allPermissions(), drillPermissions()), metav1.NamespaceAll)
}

func (c *Client) lacking(ctx context.Context, all []permission, namespace string) ([]string, error) {
	if c.forwards != nil && c.forwards(ctx) {
		all = append(all, forwardPermission())
	}
	all, err := c.installed(ctx, all)
	if err != nil {
		return nil, err
	}
	missing, err := c.missing(ctx, all, namespace)
	texts := make([]string, len(missing))
	for i, p := range missing {
		texts[i] = p.String()
	}
	return texts, err
}

func (p permission) namespaced() bool {
	return p.resource != "persistentvolumes" && p.resource != "nodes" && p.resource != "storageclasses"
}

func (p permission) String() string {
	if p.group == "" {
		return p.verb + " " + p.resource
	}
	return p.verb + " " + p.resource + "." + p.group
}

// Allowed checks every permission of a restore; the first missing one, in a fixed order, is Denied. A missing one is
// checked again until it has been missing for the client's patience. Unready if the Operator that makes the target is
// not installed.
func (c *Client) Allowed(ctx context.Context, namespace string, source json.RawMessage) error {
	of := targetFor(c, source)
	if err := c.checkInstalled(ctx, of, namespace); err != nil {
		return err
	}
	missing, err := c.installed(ctx, of.permissions())
	if err != nil {
		return err
	}
	return c.allowed(ctx, namespace, missing)
}

// AllowedToFill checks every permission that a restore needs besides to fill volumes of a CSI driver, as Allowed does.
func (c *Client) AllowedToFill(ctx context.Context, namespace string) error {
	return c.allowed(ctx, namespace, fillPermissions())
}

// allowed checks permissions; the first missing one is Denied.
func (c *Client) allowed(ctx context.Context, namespace string, missing []permission) (err error) {
	if c.forwards != nil {
		missing = append(missing, forwardPermission())
	}
	end := time.Now().Add(c.patience)
	for interval := minRefusalInterval; ; interval = min(2*interval, maxRefusalInterval) {
		if missing, err = c.missing(ctx, missing, namespace); err != nil || len(missing) == 0 {
			return err
		}
		if !slices.ContainsFunc(missing, func(p permission) bool { return p != forwardPermission() }) &&
			!c.forwards(ctx) {
			return nil
		}
		if time.Now().After(end) {
			break
		}
		if err := wait.For(ctx, interval); err != nil {
			return failure.Wrap(err, failure.Limited, "check permissions", "namespace "+namespace)
		}
	}
	p, where := missing[0], "in namespace "+namespace
	if !p.namespaced() {
		where = "in the whole cluster"
	}
	return failure.New(failure.Denied, "check permissions", "namespace "+namespace, "may not %s %s", p, where).
		WithHint("grant %s %s to this user", p, where)
}

// missing returns the permissions that the caller lacks, in their order.
func (c *Client) missing(ctx context.Context, all []permission, namespace string) ([]permission, error) {
	allowed := make([]bool, len(all))
	err := parallel.Each(ctx, parallelRequests, all, func(ctx context.Context, i int, p permission) (err error) {
		allowed[i], err = c.may(ctx, p, namespace)
		return err
	})
	var none []permission
	for i, p := range all {
		if !allowed[i] {
			none = append(none, p)
		}
	}
	return none, err
}

// accessReviews is the resource with which a caller checks its own permissions.
const accessReviews = "selfsubjectaccessreviews"

// may checks one permission by SelfSubjectAccessReview.
func (c *Client) may(ctx context.Context, p permission, namespace string) (bool, error) {
	resource, subresource, _ := strings.Cut(p.resource, "/")
	attributes := &authv1.ResourceAttributes{Verb: p.verb, Group: p.group, Resource: resource, Subresource: subresource}
	if p.namespaced() {
		attributes.Namespace = namespace
	}
	review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	answer, err := c.core.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, kubeerr.Wrap(err, "check permission", p.String())
	}
	return answer.Status.Allowed, nil
}

// Permissions lists what Allowed checks as "verb resource", for documentation and roles.
func Permissions(source json.RawMessage) []string {
	all := targetFor(nil, source).permissions()
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.verb + " " + p.resource
	}
	return names
}
