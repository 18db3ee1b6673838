package brcompat

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Common are the flags of all commands, with br's names and defaults.
type Common struct {
	Storage string
	S3      S3Flags
	PD      []string
	TLS     cluster.TLSFiles

	// EBSRole is a role to assume for EC2, with EBSExternalID if its trust policy requires one; br has no such flags.
	EBSRole, EBSExternalID string

	LogLevel, LogFile, LogFormat string

	// KeepaliveTime and KeepaliveTimeout apply to connections to stores; zero is the connection's own default, much
	// longer than br's: a store busy with elections or deletions may not answer pings for a minute.
	KeepaliveTime, KeepaliveTimeout time.Duration
}

// S3Flags configure S3 and the objects written to it.
type S3Flags struct {
	Endpoint, Region, Provider string
	StorageClass, ACL          string
	SSE, SSEKMSKeyID           string
	RoleARN, ExternalID        string

	hostStyle bool // the bucket is in the host name, not in the path; set only by the URL of --storage
}

// define declares the flags. A repeated flag replaces its earlier value.
func (c *Common) define(f *pflag.FlagSet) {
	f.StringVarP(&c.Storage, "storage", "s", "",
		"where the backup is: s3://bucket/prefix, local:///folder or file:///folder")
	c.PD = []string{"127.0.0.1:2379"}
	f.VarP((*addresses)(&c.PD), "pd", "u", "PD's addresses, separated by commas")
	f.StringVar(&c.TLS.CA, "ca", "", "CA certificate of the cluster, for TLS")
	f.StringVar(&c.TLS.Cert, "cert", "", "client certificate, for TLS")
	f.StringVar(&c.TLS.Key, "key", "", "client key, for TLS")
	f.StringVarP(&c.LogLevel, "log-level", "L", "info", "log level: debug, info, warn, error")
	f.StringVar(&c.LogFile, "log-file", "",
		"log file, instead of a temporary one; "+logToTerm+" sends it to stdout")
	f.StringVar(&c.LogFormat, "log-format", "text",
		"log format: text, json; the lines that TiDB Operator reads are always text")
	f.Var(&keepalive{&c.KeepaliveTime, "10s"}, "grpc-keepalive-time",
		"how often an idle connection to a store is pinged; 30s if not given")
	f.Var(&keepalive{&c.KeepaliveTimeout, "3s"}, "grpc-keepalive-timeout",
		"how long a ping may go unanswered; 5m0s if not given")
	s := &c.S3
	f.StringVar(&s.Endpoint, "s3.endpoint", "", "URL of an S3 service other than Amazon's")
	f.StringVar(&s.Region, "s3.region", "", "region of the bucket, the cluster and its volumes")
	f.StringVar(&s.Provider, "s3.provider", "", "S3 provider: aws, ceph, alibaba, …")
	f.StringVar(&s.StorageClass, "s3.storage-class", "", "storage class of written objects")
	f.StringVar(&s.ACL, "s3.acl", "", "canned ACL of written objects")
	f.StringVar(&s.SSE, "s3.sse", "", "server-side encryption of written objects: AES256, aws:kms")
	f.StringVar(&s.SSEKMSKeyID, "s3.sse-kms-key-id", "", "KMS key of --s3.sse=aws:kms")
	f.StringVar(&s.RoleARN, "s3.role-arn", "", "role to assume for S3")
	f.StringVar(&s.ExternalID, "s3.external-id", "", "external id for that role")
	f.StringVar(&c.EBSRole, "ebs-role-arn", "", "role to assume for EC2")
	f.StringVar(&c.EBSExternalID, "ebs-external-id", "", "external id for that role")
	defineOthers(f, commonOthers())
}

// addresses is a list whose last occurrence wins.
type addresses []string

func (a *addresses) Set(value string) error {
	list := strings.Split(value, ",")
	for i, address := range list {
		if list[i] = strings.TrimSpace(address); list[i] == "" {
			return fmt.Errorf("empty address")
		}
	}
	*a = list
	return nil
}

func (a *addresses) String() string { return strings.Join(*a, ",") }
func (a *addresses) Type() string   { return "strings" }

// keepalive is a br duration whose default is shown but not used.
type keepalive struct {
	value    *time.Duration
	fallback string
}

func (k *keepalive) Set(value string) error {
	d, err := time.ParseDuration(value)
	if err == nil && d <= 0 {
		err = fmt.Errorf("want a positive duration")
	}
	*k.value = d
	return err
}

func (k *keepalive) String() string {
	if k.value == nil || *k.value == 0 {
		return k.fallback
	}
	return k.value.String()
}

func (k *keepalive) Type() string { return "duration" }
