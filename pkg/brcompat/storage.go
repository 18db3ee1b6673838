package brcompat

import (
	"context"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// openStorage opens --storage. As with br, the URL's query may hold settings, but not credentials, which would appear
// in the process list.
func (c *Common) openStorage(ctx context.Context, cfg objstore.Config) (objstore.Store, error) {
	s3 := c.S3
	address, err := s3.readURL(c.Storage)
	if err != nil {
		return nil, err
	}
	if c := strings.ToUpper(s3.StorageClass); c == "GLACIER" || c == "DEEP_ARCHIVE" {
		return nil, failure.New(failure.Usage, "read --s3.storage-class", s3.StorageClass,
			"its objects cannot be read back immediately").
			WithHint("use STANDARD, STANDARD_IA or GLACIER_IR")
	}
	cfg.Region, cfg.Endpoint = s3.Region, strings.TrimSuffix(s3.Endpoint, "/")
	cfg.RoleARN, cfg.ExternalID = s3.RoleARN, s3.ExternalID
	cfg.VirtualHosted = s3.hostStyle || s3.Provider == "alibaba" || s3.Provider == "netease"
	cfg.Put = objstore.PutOptions{
		StorageClass: s3.StorageClass, ACL: s3.ACL, Encryption: s3.SSE, KMSKey: s3.SSEKMSKeyID,
	}
	return objstore.Open(ctx, address, cfg)
}

// readURL extracts the settings from the URL's query and converts the URL to ours.
func (s *S3Flags) readURL(storage string) (string, error) {
	if filepath.IsAbs(storage) {
		return "file://" + storage, nil
	}
	u, err := url.Parse(storage)
	if err != nil {
		return "", failure.New(failure.Usage, "read --storage", "", "the URL cannot be parsed")
	}
	switch u.Scheme {
	case "local":
		u.Scheme = "file"
	case "file":
	case "s3", "ks3":
		u.Scheme = "s3"
		if err := s.readQuery(u.Query()); err != nil {
			return "", err
		}
		u.RawQuery = ""
	default:
		return "", failure.New(failure.Usage, "read --storage", "", "the scheme %q is not supported", u.Scheme).
			WithHint("EBS snapshots need AWS: use s3://bucket/prefix, or local:///folder for a test")
	}
	return u.String(), nil
}

// settings are the flags that the URL may set too.
func (s *S3Flags) settings() map[string]*string {
	return map[string]*string{
		"endpoint": &s.Endpoint, "region": &s.Region, "provider": &s.Provider, "storage-class": &s.StorageClass,
		"acl": &s.ACL,
		"sse": &s.SSE, "sse-kms-key-id": &s.SSEKMSKeyID, "role-arn": &s.RoleARN, "external-id": &s.ExternalID,
	}
}

func (s *S3Flags) readQuery(query url.Values) error {
	settings := s.settings()
	for key := range query {
		name := strings.ReplaceAll(strings.ToLower(key), "_", "-")
		if setting, ok := settings[name]; ok {
			*setting = query.Get(key)
			continue
		}
		if name != "force-path-style" { // rejects credentials too, which must not be on a command line
			return failure.New(failure.Usage, "read --storage", "", "%q in the URL is not supported", name).
				WithHint("provide credentials through the environment or a role")
		}
		forced, err := strconv.ParseBool(query.Get(key))
		if err != nil {
			return failure.New(failure.Usage, "read --storage", query.Get(key),
				"force-path-style must be true or false")
		}
		s.hostStyle = !forced
	}
	return nil
}
