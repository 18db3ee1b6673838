package kube_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// forbidClusters has a ValidatingAdmissionPolicy refuse TidbClusters in the namespace.
func (s system) forbidClusters(t *testing.T) {
	t.Helper()
	const message = "no clusters here"
	if s.standIn != nil {
		s.standIn.Refuse(kubetest.Refusal{
			Verb: "create", Resource: "tidbclusters", Status: http.StatusUnprocessableEntity,
			Message: "ValidatingAdmissionPolicy 'none' with binding 'none' denied request: " + message,
		})
		return
	}
	api := s.core.AdmissionregistrationV1()
	name := "none-" + s.namespace
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{"pingcap.com"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"tidbclusters"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: message}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// without is the adapter of a user with the permissions of a restore, except "verb resource".
func (s system) without(t *testing.T, permission string) *kube.Client {
	t.Helper()
	verb, resource, _ := strings.Cut(permission, " ")
	if s.standIn != nil {
		s.standIn.Deny(verb, resource)
		t.Cleanup(func() { s.standIn.Allow(verb, resource) })
		return s.client
	}
	return s.as(t, without(clusterRole(t, "../../manifests/rbac.yaml"), verb, resource))
}

// without takes one verb on one resource away.
func without(rules []rbacv1.PolicyRule, verb, resource string) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, r := range rules {
		for _, of := range r.Resources {
			next := r.DeepCopy()
			next.Resources, next.Verbs = []string{of}, nil
			for _, v := range r.Verbs {
				if v != verb || of != resource {
					next.Verbs = append(next.Verbs, v)
				}
			}
			if len(next.Verbs) > 0 {
				left = append(left, *next)
			}
		}
	}
	return left
}

// as is the adapter of a new service account with these rules.
func (s system) as(t *testing.T, rules []rbacv1.PolicyRule) *kube.Client {
	t.Helper()
	return s.account(t, s.namespace, s.serviceAccount(t, rules))
}

// serviceAccount makes one with these rules in the namespace of the test, and returns its name.
func (s system) serviceAccount(t *testing.T, rules []rbacv1.PolicyRule) string {
	t.Helper()
	meta := metav1.ObjectMeta{GenerateName: s.namespace + "-"}
	account, err := s.core.CoreV1().ServiceAccounts(s.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	role, err := s.core.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.core.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return account.Name
}

// account is the adapter with a token of the service account, once the authorizer knows its roles.
func (s system) account(t *testing.T, namespace, name string) *kube.Client {
	t.Helper()
	answer, err := s.core.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, shared.WriteKubeconfig(path, answer.Status.Token, namespace))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	eventually(t, "the authorizer knows the role", func() bool {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		answer, err := core.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && slices.ContainsFunc(answer.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
			return slices.Contains(r.Resources, "persistentvolumes") || slices.Contains(r.Resources, "pods")
		})
	})
	return adapter(t, kube.Config{Kubeconfig: path})
}
