package generate

import "strings"

// Roles is what tisnap's pods may do in Kubernetes.
type Roles struct {
	Account    Account
	Namespaces []string // of the TiDB clusters
	TLS        []string // names of clusters whose client secrets may be read
	RoleARN    string   // of the account's IAM role, for IRSA alone
	Drill      bool     // adds what a drill needs, in all namespaces: it makes its own
}

// Objects returns the ServiceAccount, its roles and their bindings. Those that are not the default account's are named
// after theirs, so that two accounts do not share a binding.
func (r Roles) Objects() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	account, err := read("kustomize/base/serviceaccount.yaml")
	if err != nil {
		return nil, err
	}
	account[0].set(r.Account.Name, "metadata", "name")
	account[0].set(r.Account.Namespace, "metadata", "namespace")
	if r.RoleARN != "" {
		account[0].set(r.RoleARN, "metadata", "annotations", "eks.amazonaws.com/role-arn")
	}
	out := account
	for _, namespace := range r.Namespaces {
		roles, err := r.in(namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, roles...)
	}
	files := []string{"kustomize/base/clusterrole.yaml"}
	if r.Drill {
		files = append(files, "kustomize/drill/clusterrole.yaml")
	}
	wide, err := read(files...)
	if err != nil {
		return nil, err
	}
	r.bind(wide)
	return write(append(out, wide...))
}

func (r Roles) check() error {
	if err := r.Account.check(); err != nil {
		return err
	}
	for _, namespace := range r.Namespaces {
		if err := check("namespace", namespace, label, "the name of a namespace with TiDB clusters"); err != nil {
			return err
		}
	}
	for _, name := range r.TLS {
		if err := check("--tls-cluster", name, label, "a TidbCluster's name"); err != nil {
			return err
		}
	}
	return check("--role-arn", r.RoleARN, "|"+roleARN, "a role's ARN")
}

// in returns the roles in the namespace of a TiDB cluster.
func (r Roles) in(namespace string) ([]document, error) {
	roles, err := read("kustomize/base/role.yaml")
	if err != nil {
		return nil, err
	}
	if len(r.TLS) > 0 {
		secrets, err := read("rbac-tls.yaml")
		if err != nil {
			return nil, err
		}
		var names []string
		for _, name := range r.TLS {
			names = append(names, name+"-cluster-client-secret")
		}
		secrets[0].list(names, "rules", "0", "resourceNames")
		roles = append(roles, secrets...)
	}
	for _, d := range roles {
		d.set(namespace, "metadata", "namespace")
	}
	r.bind(roles)
	return roles, nil
}

// bind names roles and bindings after the account, and gives them to it.
func (r Roles) bind(documents []document) {
	for _, d := range documents {
		for _, path := range [][]string{{"metadata", "name"}, {"roleRef", "name"}} {
			if node := d.at(path...); node != nil {
				d.set(strings.Replace(node.Value, "tisnap", r.Account.Name, 1), path...)
			}
		}
		if d.at("subjects") != nil {
			d.set(r.Account.Name, "subjects", "0", "name")
			d.set(r.Account.Namespace, "subjects", "0", "namespace")
		}
	}
}
