package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// Account makes what is in a file of manifests/ that holds one service account with its role and binding, in the namespace
// that the file names, and returns the path of a kubeconfig for that account: by a token of its own, so that the authorizer
// grants what the file grants and nothing else. It returns when the authorizer knows the role, in four minutes at most.
func (p *Plane) Account(ctx context.Context, file string) (kubeconfig string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	account, err := p.apply(ctx, file)
	if err != nil {
		return "", fmt.Errorf("make the account of %s: %w", file, err)
	}
	config, err := p.Config("admin")
	if err != nil {
		return "", err
	}
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	token, err := admin.CoreV1().ServiceAccounts(account.GetNamespace()).CreateToken(ctx, account.GetName(), &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	user := account.GetNamespace() + "-" + account.GetName()
	if err := p.WriteKubeconfig(p.Kubeconfig(user), token.Status.Token, account.GetNamespace()); err != nil {
		return "", err
	}
	if config, err = p.Config(user); err != nil {
		return "", err
	}
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	return p.Kubeconfig(user), p.await(ctx, func(ctx context.Context) error { return listsPods(ctx, own, account.GetNamespace()) })
}

// apply creates the objects of a file, and returns the service account among them.
func (p *Plane) apply(ctx context.Context, file string) (account *unstructured.Unstructured, err error) {
	config, err := p.Config("admin")
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, err
		}
		if o.GetKind() == "ServiceAccount" {
			account = o
			if err := createdOrThere(ctx, client, namespaceOf(o)); err != nil {
				return nil, err
			}
		}
		if err := createdOrThere(ctx, client, o); err != nil {
			return nil, err
		}
	}
	if account == nil {
		return nil, errors.New("there is no service account")
	}
	return account, nil
}

func namespaceOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": o.GetNamespace()},
	}}
}

func createdOrThere(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
	_, err := client.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// listsPods is nil once the account may do what each of the roles lets it do.
func listsPods(ctx context.Context, own kubernetes.Interface, namespace string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "pods"},
	}}
	answer, err := own.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err == nil && !answer.Status.Allowed {
		err = errors.New("the authorizer does not know the role yet")
	}
	return err
}
