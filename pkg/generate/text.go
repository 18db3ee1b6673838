package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tisnap/tisnap/manifests"
)

// Bucket returns a script of aws commands that creates the bucket.
func Bucket(s Storage) ([]byte, error) {
	if err := needsRegion(s); err != nil {
		return nil, err
	}
	script, err := manifests.Files.ReadFile("bucket.sh")
	if err != nil {
		return nil, err
	}
	script = bytes.ReplaceAll(script, []byte("arn:aws:"), []byte("arn:"+partition(s.Region)+":"))
	return assign(script, "", [][2]string{{"bucket", s.Bucket}, {"region", s.Region}})
}

// Cloud is what Terraform creates: the bucket, and the role with its policy.
type Cloud struct {
	Storage Storage
	Trust   Trust
	Role    string   // its name
	EKS     string   // the name of the EKS cluster; for Pod Identity alone
	Keys    []string // ARNs of KMS keys
	// ArchiveKeys are ARNs of KMS keys that unlock repositories of archives.
	ArchiveKeys []string
}

// Terraform returns a configuration in one file.
func (c Cloud) Terraform() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Trust.Region = c.Storage.Region
	trust, err := c.Trust.Policy()
	if err != nil {
		return nil, err
	}
	permissions, err := Permissions(c.Storage, c.Keys...)
	if err == nil {
		err = permissions.AddArchiveKeys(c.ArchiveKeys...)
	}
	if err != nil {
		return nil, err
	}
	names := [][2]string{
		{"region", c.Storage.Region}, {"bucket", c.Storage.Bucket}, {"role", c.Role},
		{"namespace", c.Trust.Account.Namespace}, {"service_account", c.Trust.Account.Name},
	}
	text, err := manifests.Files.ReadFile("terraform/tisnap.tf")
	if err != nil {
		return nil, err
	}
	if c.Trust.Way != IRSA {
		association, err := manifests.Files.ReadFile("terraform/pod-identity.tf")
		if err != nil {
			return nil, err
		}
		text, names = slices.Concat(text, []byte("\n"), association), append(names, [2]string{"cluster_name", c.EKS})
	}
	if text, err = inline(text, "iam-trust-pod-identity.json", trust); err != nil {
		return nil, err
	}
	if text, err = inline(text, "iam-policy.json", permissions); err != nil {
		return nil, err
	}
	return assign(text, `"`, names)
}

func (c Cloud) check() error {
	if err := needsRegion(c.Storage); err != nil {
		return err
	}
	if c.Trust.Way != IRSA {
		if err := check("--eks-cluster", c.EKS, `[A-Za-z0-9][A-Za-z0-9_-]{0,99}`, "the EKS cluster's name"); err != nil {
			return err
		}
	}
	return check("--role", c.Role, `[A-Za-z0-9_+=,.@-]{1,64}`, "the name of an IAM role")
}

func needsRegion(s Storage) error {
	if s.Region == "" {
		return missing("--region").WithHint("set --region or AWS_REGION")
	}
	return nil
}

// inline puts a policy where Terraform would read it from a file.
func inline(text []byte, file string, p Policy) ([]byte, error) {
	read := []byte(`file("${path.module}/../` + file + `")`)
	if bytes.Count(text, read) != 1 {
		return nil, fmt.Errorf("%s is not read once", file)
	}
	policy, err := p.JSON()
	if err != nil {
		return nil, err
	}
	var encoded bytes.Buffer // in HCL an object may be written as JSON
	encoded.WriteString("jsonencode(")
	if err := json.Indent(&encoded, bytes.TrimSpace(policy), "  ", "  "); err != nil {
		return nil, err
	}
	encoded.WriteString(")")
	return bytes.Replace(text, read, encoded.Bytes(), 1), nil
}

// assign gives variables other values, in a script or in Terraform, each in the one line that has it.
func assign(text []byte, quote string, values [][2]string) ([]byte, error) {
	for _, v := range values {
		line := regexp.MustCompile(`(?m)^(\s*` + v[0] + `\s*=\s*` + quote + `)[^"$\n]*(` + quote + `)$`)
		if len(line.FindAllIndex(text, 2)) != 1 {
			return nil, fmt.Errorf("%s is not assigned once", v[0])
		}
		text = line.ReplaceAll(text, []byte("${1}"+v[1]+"${2}"))
	}
	return text, nil
}
