package arch

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// call matches a call of an AWS client by an adapter: c.ec2.CreateVolume(, s3.NewListObjectsV2Paginator(.
var call = regexp.MustCompile(`\.(ec2|sts|quotas|kms|client|api)\.([A-Z]\w*)\(ctx|\b(ec2|s3)\.New([A-Z]\w*)Paginator\(`)

// Actions lists the IAM actions that the calls in the sources of an AWS adapter need.
func Actions(sources []Source) []string {
	found := map[string]bool{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		for _, m := range call.FindAllStringSubmatch(string(s.Text), -1) {
			service := strings.NewReplacer("client", "s3", "quotas", "servicequotas", "api", "ebs").Replace(m[1] + m[3])
			operation := m[2] + m[4]
			if name, other := permissionNames()[operation]; other {
				operation = name
			}
			found[service+":"+operation] = true
		}
		if strings.Contains(string(s.Text), "TagSpecifications:") {
			found["ec2:CreateTags"] = true // EC2 asks for it where a call tags what it makes
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// permissionNames are S3's names of the permissions that are not called as their operations.
func permissionNames() map[string]string {
	return map[string]string{
		"ListObjectsV2":                   "ListBucket",
		"ListObjectVersions":              "ListBucketVersions",
		"GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
		"GetObjectLockConfiguration":      "GetBucketObjectLockConfiguration",
	}
}
