package generate

import (
	"regexp"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Storage is where backups are kept.
type Storage struct {
	Bucket, Prefix string // no prefix is the whole bucket
	Region         string
}

// String is the storage as --storage takes it.
func (s Storage) String() string { return "s3://" + s.path() }

func (s Storage) path() string { return strings.TrimSuffix(s.Bucket+"/"+s.Prefix, "/") }

// ParseStorage parses s3://bucket/prefix, which the user gave as this flag. Characters that mean something in an IAM
// policy, a script or Terraform are a Usage error, as is a region that cannot be one; it may be "".
func ParseStorage(flag, url, region string) (Storage, error) {
	path, ok := strings.CutPrefix(url, "s3://")
	bucket, prefix, _ := strings.Cut(path, "/")
	s := Storage{Bucket: bucket, Prefix: strings.Trim(prefix, "/"), Region: region}
	if !ok || !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`).MatchString(bucket) {
		return Storage{}, wrong(flag, url, "s3://bucket or s3://bucket/prefix")
	}
	if err := check(flag, url, `[A-Za-z0-9_./:=+@,-]*`, "a prefix of letters, digits and _./=+@,-"); err != nil {
		return Storage{}, err
	}
	return s, check("--region", region, `|[a-z]{2}(-[a-z]+)+-[0-9]+`, "a region such as us-west-2")
}

// Account is the ServiceAccount of tisnap's pods.
type Account struct {
	Namespace, Name string
}

const label = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`

func (a Account) check() error {
	if a.Namespace == "" {
		return missing("--namespace").WithHint("set -n to the namespace that tisnap's pods run in")
	}
	if err := check("--namespace", a.Namespace, label, "a namespace's name"); err != nil {
		return err
	}
	return check("--service-account", a.Name, label, "a ServiceAccount's name")
}

// partition is that of the region in ARNs.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// check accepts values that match the whole pattern.
func check(flag, value, pattern, want string) error {
	if regexp.MustCompile("^(" + pattern + ")$").MatchString(value) {
		return nil
	}
	return wrong(flag, value, want)
}

func wrong(flag, value, want string) error {
	return failure.New(failure.Usage, "", "", "%s %q: want %s", flag, value, want)
}

func missing(flag string) *failure.Error {
	return failure.New(failure.Usage, "", "", "%s is missing", flag)
}
