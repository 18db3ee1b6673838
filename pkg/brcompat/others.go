package brcompat

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
)

// other is a br flag that has no use here. Where br versions differ in the default, it is that of 8.5.
type other struct {
	name, short string
	fallback    string // br's default; "true" or "false" makes it a boolean flag
	// refused explains why only the default can be honoured; empty for a flag that never affects a volume snapshot.
	refused string
}

func commonOthers() []other {
	const cipher = "a volume snapshot is encrypted by its volume's KMS key, not by br"
	return []other{
		{name: "send-credentials-to-tikv", short: "c", fallback: "true"},
		{name: "concurrency", fallback: "0"},
		{name: "checksum-concurrency", fallback: "4"},
		{name: "ratelimit", fallback: "0"},
		{name: "ratelimit-unit", fallback: "1048576"},
		{name: "checksum", fallback: "true"},
		{name: "remove-tiflash", fallback: "true"},
		{name: "check-requirements", fallback: "true"},
		{name: "switch-mode-interval", fallback: "5m0s"},
		{name: "enable-opentracing", fallback: "false"},
		{name: "skip-check-path", fallback: "false"},
		{name: "metadata-download-batch-size", fallback: "128"},
		{name: "redact-log", fallback: "false"},
		{name: "redact-info-log", fallback: "false"},
		{name: "status-addr"},
		{name: "slow-log-file"},
		{name: "keyspace-name"},
		{name: "crypter.method", fallback: "plaintext", refused: cipher},
		{name: "crypter.key", refused: cipher},
		{name: "crypter.key-file", refused: cipher},
		{name: "master-key", refused: cipher},
		{name: "master-key-crypter-method", fallback: "plaintext", refused: cipher},
		{name: "no-credentials", fallback: "false", refused: "S3 and EC2 require credentials"},
	}
}

const (
	wholeCluster = "a volume snapshot covers the whole cluster"
	noMock       = "nothing would be snapshotted or restored, yet the run would succeed"
)

func backupOthers() []other {
	return []other{
		{name: "concurrency", fallback: "4"},
		{name: "compression", fallback: "zstd"},
		{name: "compression-level", fallback: "0"},
		{name: "gcttl", fallback: "300"},
		{name: "remove-schedulers", fallback: "false"},
		{name: "ignore-stats", fallback: "true"},
		{name: "use-backupmeta-v2", fallback: "true"},
		{name: "use-checkpoint", fallback: "true"},
		{name: "range-limit", fallback: "30000000"},
		{name: "table-concurrency", fallback: "64"},
		{name: "replica-read-label"},
		{name: "tikv-max-restore-concurrency"},
		{name: "lastbackupts", fallback: "0", refused: "snapshots are always incremental"},
		{name: "backupts", refused: "the backup ts is the resolved ts at the cut"},
		{name: "timeago", fallback: "0s", refused: "the backup ts is the resolved ts at the cut"},
		{name: "filter", short: "f", fallback: "*.*", refused: wholeCluster},
		{name: "case-sensitive", fallback: "false"},
		{name: "skip-aws", fallback: "false", refused: noMock},
		{name: "cloud-api-concurrency", fallback: "8"}, // calls are paced by EC2's own limits
	}
}

func restoreOthers() []other {
	return []other{
		{name: "concurrency", fallback: "128"},
		{name: "online", fallback: "false"},
		{name: "no-schema", fallback: "false", refused: wholeCluster},
		{name: "load-stats", fallback: "true"},
		{name: "fast-load-sys-tables", fallback: "true"},
		{name: "with-sys-table", fallback: "true"},
		{name: "use-checkpoint", fallback: "true"},
		{name: "merge-region-size-bytes", fallback: "100663296"},
		{name: "merge-region-key-count", fallback: "960000"},
		{name: "pd-concurrency", fallback: "1"},
		{name: "stats-concurrency", fallback: "12"},
		{name: "batch-flush-interval", fallback: "16s"},
		{name: "ddl-batch-size", fallback: "128"},
		{name: "tikv-max-restore-concurrency", fallback: "128"},
		{name: "granularity", fallback: "coarse-grained"},
		{name: "with-tidb-placement-mode", fallback: "STRICT"},
		{name: "reset-sys-users", fallback: "[cloud_admin,root]"},
		{name: "wait-tiflash-ready", fallback: "false"},
		{name: "filter", short: "f", fallback: "*.*", refused: wholeCluster},
		{name: "case-sensitive", fallback: "false"},
		{name: "skip-aws", fallback: "false", refused: noMock},
		{name: "cloud-api-concurrency", fallback: "8"}, // calls are paced by EC2's own limits
	}
}

// defineOthers declares these flags with br's defaults.
func defineOthers(f *pflag.FlagSet, flags []other) {
	for _, o := range flags {
		usage := "accepted; does not affect a volume snapshot"
		if o.refused != "" {
			usage = "refused: " + o.refused
		}
		flag := f.VarPF(&otherValue{other: o, value: o.fallback}, o.name, o.short, usage)
		if o.isBool() {
			flag.NoOptDefVal = "true"
		}
	}
}

func (o other) isBool() bool { return o.fallback == "true" || o.fallback == "false" }

// otherValue accepts any value.
type otherValue struct {
	other
	value string
}

func (v *otherValue) Set(value string) error {
	if v.isBool() {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return err
		}
		value = strconv.FormatBool(b)
	}
	v.value = value
	return nil
}

func (v *otherValue) String() string { return v.value }

func (v *otherValue) Type() string {
	if v.isBool() {
		return "bool"
	}
	return "string"
}

// checkFlags refuses, by name, flags that cannot be honoured. It does not echo their values: one may be a key.
func checkFlags(cmd *cobra.Command) error {
	for _, v := range otherFlags(cmd) {
		if v.refused != "" && v.value != v.fallback {
			return failure.New(failure.Usage, "", "", "--%s is not supported: %s", v.name, v.refused).
				WithHint("omit it, or use PingCAP's br")
		}
	}
	return nil
}

// ignoredFlags returns the given flags that have no effect.
func ignoredFlags(cmd *cobra.Command) []string {
	var names []string
	for _, v := range otherFlags(cmd) {
		if v.refused == "" && !slices.Contains(silent(), v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// silent are the flags that the Operator always sets, which would put a warning into every log.
func silent() []string { return []string{"send-credentials-to-tikv"} }

func otherFlags(cmd *cobra.Command) []*otherValue {
	var given []*otherValue
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*otherValue); ok {
			given = append(given, v)
		}
	})
	return given
}
