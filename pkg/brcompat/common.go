package brcompat

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Common are the flags that all commands have, by br's names and with br's defaults.
type Common struct {
	Storage string
	S3      S3Flags
	PD      []string
	TLS     cluster.TLSFiles

	LogLevel, LogFile, LogFormat string

	// KeepaliveTime and KeepaliveTimeout are those of connections to stores; zero is the connection's own default,
	// which waits much longer than br's: a store that elects or deletes much does not answer pings for a minute.
	KeepaliveTime, KeepaliveTimeout time.Duration
}

// S3Flags are how br reaches S3 and writes its objects.
type S3Flags struct {
	Endpoint, Region, Provider string
	StorageClass, ACL          string
	SSE, SSEKMSKeyID           string
	RoleARN, ExternalID        string

	hostStyle bool // the bucket is in the host's name, not in the path: only the URL of --storage can say so
}

// define declares the flags. A flag that is given again replaces what was given before.
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
		"write the log there, not to a temporary file; "+logToTerm+" sends it to stdout")
	f.StringVar(&c.LogFormat, "log-format", "text",
		"log format: text, json; the lines that TiDB Operator reads are text in either")
	f.Var(&keepalive{&c.KeepaliveTime, "10s"}, "grpc-keepalive-time",
		"how often a silent connection to a store is pinged; if not given, 30s")
	f.Var(&keepalive{&c.KeepaliveTimeout, "3s"}, "grpc-keepalive-timeout",
		"how long a ping may stay unanswered; if not given, 5m0s")
	s := &c.S3
	f.StringVar(&s.Endpoint, "s3.endpoint", "", "URL of an S3 that is not Amazon's")
	f.StringVar(&s.Region, "s3.region", "", "region of the bucket, of the cluster and its volumes")
	f.StringVar(&s.Provider, "s3.provider", "", "who serves S3: aws, ceph, alibaba, …")
	f.StringVar(&s.StorageClass, "s3.storage-class", "", "storage class of written objects")
	f.StringVar(&s.ACL, "s3.acl", "", "canned ACL of written objects")
	f.StringVar(&s.SSE, "s3.sse", "", "server-side encryption of written objects: AES256, aws:kms")
	f.StringVar(&s.SSEKMSKeyID, "s3.sse-kms-key-id", "", "KMS key of --s3.sse=aws:kms")
	f.StringVar(&s.RoleARN, "s3.role-arn", "", "role to assume for S3")
	f.StringVar(&s.ExternalID, "s3.external-id", "", "external id for that role")
	defineOthers(f, commonOthers())
}

// addresses is a list whose last mention wins.
type addresses []string

func (a *addresses) Set(value string) error {
	list := strings.Split(value, ",")
	for i, address := range list {
		if list[i] = strings.TrimSpace(address); list[i] == "" {
			return fmt.Errorf("an address is empty")
		}
	}
	*a = list
	return nil
}

func (a *addresses) String() string { return strings.Join(*a, ",") }
func (a *addresses) Type() string   { return "strings" }

// keepalive is a duration of br's whose default is shown and not used.
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
