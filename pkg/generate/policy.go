package generate

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tisnap/tisnap/manifests"
)

// Policy is an IAM policy.
type Policy struct {
	Version   string
	Statement []Statement
}

// Statement is a statement of an IAM policy.
type Statement struct {
	Sid       string `json:",omitempty"`
	Effect    string
	Principal map[string]string `json:",omitempty"`
	Action    []string
	Resource  string                    `json:",omitempty"`
	Condition map[string]map[string]any `json:",omitempty"`
}

// JSON is the policy as it is written to a file.
func (p Policy) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func readPolicy(file string) (p Policy, err error) {
	text, err := manifests.Files.ReadFile(file)
	if err != nil {
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return p, d.Decode(&p)
}

const roleARN = `arn:aws[a-z-]*:iam::[0-9]{12}:role/\S+`

// CopySource returns the policy of the role that reads backups in the storage to copy them, and assumes this role of
// the target's account.
func CopySource(s Storage, targetRole string) (Policy, error) {
	if err := check("--target-role", targetRole, roleARN, "a role's ARN"); err != nil {
		return Policy{}, err
	}
	return named("iam-policy-copy-source.json", s, "TARGET_ROLE", targetRole)
}

// CopyTarget returns the policy of the role that keeps copies in the storage.
func CopyTarget(s Storage) (Policy, error) { return named("iam-policy-copy-target.json", s) }

// Repository returns the policy of a role that makes, reads and prunes archives in a repository, also in a bucket that
// keeps versions, and in one that Object Lock keeps if retained.
func Repository(s Storage, retained bool) (Policy, error) {
	p, err := named("iam-policy-archive.json", s)
	if err != nil || !retained {
		return p, err
	}
	more, err := named("iam-policy-archive-retention.json", s)
	p.Statement = append(p.Statement, more.Statement...)
	return p, err
}

// named reads a policy, and puts the names of the storage and others into it.
func named(file string, s Storage, others ...string) (Policy, error) {
	p, err := readPolicy(file)
	if err != nil {
		return Policy{}, err
	}
	names := strings.NewReplacer(append([]string{
		"BUCKET/PREFIX", s.path(), "BUCKET", s.Bucket, "arn:aws:", "arn:" + partition(s.Region) + ":",
	}, others...)...)
	for i := range p.Statement {
		p.Statement[i].Resource = names.Replace(p.Statement[i].Resource)
	}
	return p, nil
}

// Permissions returns the policy of the role that takes and restores backups in the storage, whose volumes may be
// encrypted with these KMS keys.
func Permissions(s Storage, keys ...string) (Policy, error) {
	p, err := named("iam-policy.json", s)
	if err != nil {
		return Policy{}, err
	}
	err = p.add("--kms-key", "iam-policy-kms.json", keys)
	return p, err
}

// AddArchiveKeys also allows to unlock repositories of archives by these KMS keys.
func (p *Policy) AddArchiveKeys(keys ...string) error {
	return p.add("--archive-key", "iam-policy-archive-key.json", keys)
}

// add adds the statements of a file, for each of these KMS keys.
func (p *Policy) add(flag, file string, keys []string) error {
	for _, key := range keys {
		if err := check(flag, key, `arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+`,
			"a key's ARN"); err != nil {
			return err
		}
		use, err := readPolicy(file)
		if err != nil {
			return err
		}
		for _, statement := range use.Statement {
			statement.Resource = key
			p.Statement = append(p.Statement, statement)
		}
	}
	return nil
}

// Way is how the IAM role is got.
type Way string

// The ways: two of pods, and one of those who have another role.
const (
	PodIdentity Way = "pod-identity"
	IRSA        Way = "irsa"
	ByRole      Way = "role"
)

// Trust is who may use the role: the pods of a ServiceAccount, or who has another role.
type Trust struct {
	Way     Way
	Account Account
	// Role is the ARN of the other role, and ExternalID what it has to pass, "" for nothing; for ByRole alone.
	Role, ExternalID string
	// AWSAccount and Provider are the id of the AWS account and the EKS cluster's OIDC provider; for IRSA alone.
	AWSAccount, Provider, Region string
}

// Policy returns the role's trust policy.
func (t Trust) Policy() (Policy, error) {
	if t.Way == ByRole {
		return t.byRole()
	}
	if err := t.Account.check(); err != nil {
		return Policy{}, err
	}
	if t.Way != IRSA {
		p, err := readPolicy("iam-trust-pod-identity.json")
		if err != nil {
			return Policy{}, err
		}
		equals := p.Statement[0].Condition["StringEquals"]
		equals["aws:RequestTag/kubernetes-namespace"] = t.Account.Namespace
		equals["aws:RequestTag/kubernetes-service-account"] = t.Account.Name
		return p, nil
	}
	provider := strings.TrimPrefix(t.Provider, "https://")
	if err := check("--account", t.AWSAccount, `[0-9]{12}`, "the id of the AWS account, 12 digits"); err != nil {
		return Policy{}, err
	}
	if err := check("--oidc-provider", provider, `[a-z0-9.-]+/id/[A-Za-z0-9]+`,
		"what aws eks describe-cluster --query cluster.identity.oidc.issuer prints"); err != nil {
		return Policy{}, err
	}
	p, err := readPolicy("iam-trust-irsa.json")
	if err != nil {
		return Policy{}, err
	}
	names := strings.NewReplacer("ACCOUNT", t.AWSAccount, "PROVIDER", provider,
		"arn:aws:", "arn:"+partition(t.Region)+":")
	s := &p.Statement[0]
	s.Principal["Federated"] = names.Replace(s.Principal["Federated"])
	equals := map[string]any{}
	for key, value := range s.Condition["StringEquals"] {
		equals[names.Replace(key)] = value
	}
	equals[provider+":sub"] = "system:serviceaccount:" + t.Account.Namespace + ":" + t.Account.Name
	s.Condition["StringEquals"] = equals
	return p, nil
}

// byRole is Policy for another role, such as tisnap's own that assumes the one of --ebs-role-arn.
func (t Trust) byRole() (Policy, error) {
	if err := check("--trusted-role", t.Role, roleARN, "a role's ARN"); err != nil {
		return Policy{}, err
	}
	p, err := readPolicy("iam-trust-role.json")
	if err != nil {
		return Policy{}, err
	}
	for i := range p.Statement {
		p.Statement[i].Principal["AWS"] = t.Role
	}
	s := &p.Statement[0] // the other one is of tags, where STS knows no external id
	if t.ExternalID == "" {
		s.Condition = nil
		return p, nil
	}
	s.Condition["StringEquals"]["sts:ExternalId"] = t.ExternalID
	return p, check("--external-id", t.ExternalID, `[A-Za-z0-9_+=,.@:/-]{2,}`,
		"two letters, digits or _+=,.@:/- at least, as STS takes it")
}
