package brcompat_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

// logged runs a command line whose log goes to a file, and returns how it ended and the log.
func logged(t *testing.T, args ...string) (ended, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "br.log")
	got := run(t, append(args, "--log-file", file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		require.True(t, os.IsNotExist(err))
	}
	return got, string(text)
}

// Each reaches the reading of the volume file, the last one that was named: all before it was understood.
func TestFlags_InAnyOrderAndForm_TheLastOneWins(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "wanted.json")
	for name, args := range map[string][]string{
		"as the Operator writes it": {
			"backup", "full", "--pd=prod-pd.tidb:2379", "--type=aws-ebs", "--storage=s3://b/p", "--s3.region=us-west-2", "--s3.provider=aws",
			"--volume-file=" + missing, "--operator-paused-gc-and-scheduler=true", "--send-credentials-to-tikv=false",
		},
		"with spaces": {
			"backup", "full", "--pd", "prod-pd.tidb:2379", "--type", "aws-ebs", "--storage", "s3://b/p", "--volume-file", missing,
			"--operator-paused-gc-and-scheduler", "true", "--checksum", "false", "-c", "false",
		},
		"flags first":    {"--storage=s3://b/p", "--pd=x:1", "backup", "--type=aws-ebs", "full", "--volume-file=" + missing},
		"the last wins":  {"backup", "full", "--type=kv", "--storage=local:///a", "--volume-file=/a", "--type=aws-ebs", "-s", "s3://b/p", "--volume-file", missing},
		"PD twice":       {"backup", "full", "--pd=a:1,b:2", "--pd", "c:3", "-s", "s3://b/p", "--type=aws-ebs", "--volume-file=" + missing},
		"in short forms": {"backup", "full", "-u", "a:1,b:2", "-s", "s3://b/p", "-L", "debug", "--type=aws-ebs", "--volume-file=" + missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, log := logged(t, args...)
			require.Equal(t, brcompat.ExitFailed, got.code)
			require.Contains(t, got.stderr, "read --volume-file of "+missing)
			require.Contains(t, log, "[ERROR]")
		})
	}
}

// The values and the default are those of tisnap backup.
func TestFlags_EarlyApply_IsCheckedBeforeAnythingIsRead(t *testing.T) {
	t.Parallel()
	full := []string{"backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere"}
	pause := []string{"operator", "pause-gc-and-schedulers", "--pd=127.0.0.1:1"}
	for name, row := range map[string]struct {
		args    []string
		message string
	}{
		"full, prevent":            {append(slices.Clone(full), "--early-apply=prevent"), "/nowhere"},
		"full, ignore":             {append(slices.Clone(full), "--early-apply=ignore"), "/nowhere"},
		"full, require":            {append(slices.Clone(full), "--early-apply=require"), "/nowhere"},
		"full, another":            {append(slices.Clone(full), "--early-apply=never"), `--early-apply "never": want prevent, ignore or require`},
		"under another's, prevent": {append(slices.Clone(full), "--operator-paused-gc-and-scheduler", "--early-apply=prevent"), "/nowhere"},
		"under another's, require": {append(slices.Clone(full), "--operator-paused-gc-and-scheduler", "--early-apply=require"), "/nowhere"},
		"no role":                  {append(slices.Clone(full), "--ebs-external-id=ours"), "--ebs-external-id: it goes with --ebs-role-arn"},
		"pause, another":           {append(slices.Clone(pause), "--early-apply=never"), `--early-apply "never": want prevent, ignore or require`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := logged(t, row.args...)
			require.Equal(t, brcompat.ExitFailed, got.code)
			require.Contains(t, got.stderr, row.message)
		})
	}
}

func TestFlags_ThatMakeNoDifference_AreIgnoredWithAWarning(t *testing.T) {
	t.Parallel()
	got, log := logged(t, "backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere",
		"--ratelimit=100", "--concurrency", "8", "--cloud-api-concurrency=16", "--checksum=false", "--send-credentials-to-tikv=false", "--crypter.method=plaintext")
	require.Contains(t, got.stderr, "/nowhere")
	require.Regexp(t, `\[WARN\] .*snapshot: --checksum, --cloud-api-concurrency, --concurrency, --ratelimit"\]`, log)
}

func TestFlags_ThatCannotBeHonoured_AreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a test mode that makes nothing": {[]string{"--skip-aws"}, "--skip-aws"},
		"a key":                          {[]string{"--crypter.key=0123456789abcdef"}, "--crypter.key"},
		"another ts":                     {[]string{"--backupts=400000000"}, "--backupts"},
		"some tables only":               {[]string{"-f", "db.*"}, "--filter"},
		"an incremental backup":          {[]string{"--lastbackupts=1"}, "--lastbackupts"},
		"another type":                   {[]string{"--type=kv"}, "--type=kv"},
		"no storage":                     {[]string{"--storage="}, "--storage"},
		"an unknown flag":                {[]string{"--turbo=on"}, "--turbo"},
		"a bad boolean":                  {[]string{"--operator-paused-gc-and-scheduler=maybe"}, "--operator-paused-gc-and-scheduler"},
		"an empty address":               {[]string{"--pd=a:1,,b:2"}, "--pd"},
		"an unknown log level":           {[]string{"--log-level=loud"}, "--log-level"},
		"an unknown log format":          {[]string{"--log-format=xml"}, "--log-format"},
		"half a key pair":                {[]string{"--cert=/nowhere.crt"}, "--volume-file"}, // found later: see the connection
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := logged(t, append([]string{"backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere"}, c.args...)...)
			require.Equal(t, brcompat.ExitFailed, got.code)
			require.Contains(t, got.stderr, c.want)
			require.NotContains(t, got.stderr, "0123456789abcdef")
			require.Equal(t, 1, strings.Count(got.stderr, "Error: "))
		})
	}
}

// The log has pingcap's format, and goes to the file; what the Operator waits for goes to stdout, too.
func TestLog_IsPingcaps(t *testing.T) {
	t.Parallel()
	got, log := logged(t, "backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere", "--ratelimit=1")
	require.Contains(t, got.stderr, "Detail BR log in ")
	line := regexp.MustCompile(`^\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d\] \[(WARN|ERROR)\] \[\w+\.go:\d+\] \[.*\](?: \[.*\])*$`)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	require.Len(t, lines, 2)
	for _, l := range lines {
		require.Regexp(t, line, l)
	}
	_, log = logged(t, "backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere", "--log-level=error", "--ratelimit=1")
	require.Equal(t, 1, strings.Count(log, "\n"))
	_, log = logged(t, "backup", "full", "--type=aws-ebs", "--storage=s3://b/p", "--volume-file=/nowhere", "--log-format=json")
	require.Contains(t, log, `"level":"ERROR"`)
}

// The flags that a Job gives, or a CR's options may, have br's defaults, and the help shows them.
func TestFlags_DefaultsAreThoseOfBR(t *testing.T) {
	t.Parallel()
	for command, flags := range map[string]map[string]string{
		"backup full": {
			"type": "kv", "volume-file": "./backup.json", "progress-file": "progress.txt", "operator-paused-gc-and-scheduler": "false",
			"cloud-api-concurrency": "8", "skip-aws": "false", "concurrency": "4", "compression": "zstd", "gcttl": "300",
		},
		"restore full": {
			"type": "kv", "prepare": "false", "output-file": "output.json", "progress-file": "progress.txt", "target-az": "", "use-fsr": "false",
			"cloud-api-concurrency": "8", "skip-aws": "false", "volume-type": "gp3", "volume-iops": "0", "volume-throughput": "0",
			"volume-encrypted": "false", "volume-scope": "0", "concurrency": "128",
		},
		"operator pause-gc-and-schedulers":     {"ttl": "2m0s", "safepoint": "0"},
		"operator prepare-for-snapshot-backup": {"ttl": "2m0s", "safepoint": "0"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for name, want := range map[string]string{
				"pd": "127.0.0.1:2379", "ca": "", "cert": "", "key": "", "storage": "", "send-credentials-to-tikv": "true",
				"s3.endpoint": "", "s3.region": "", "s3.provider": "", "s3.sse": "", "s3.sse-kms-key-id": "", "s3.acl": "", "s3.storage-class": "",
				"log-level": "info", "log-file": "", "log-format": "text", "status-addr": "", "ratelimit": "0", "checksum": "true",
				"check-requirements": "true", "grpc-keepalive-time": "10s", "grpc-keepalive-timeout": "3s",
			} {
				flags[name] = want
			}
			help := run(t, append(strings.Fields(command), "--help")...).stdout
			for name, want := range flags {
				line := regexp.MustCompile(`(?m)^ +(-\w, )?--` + regexp.QuoteMeta(name) + `[ \n].*$`).FindString(help)
				require.NotEmpty(t, line, name)
				switch want {
				case "", "0", "false": // what the help leaves out
					require.NotContains(t, line, "(default", name)
				default:
					require.Contains(t, strings.ReplaceAll(line, `"`, ""), "(default "+want+")", name)
				}
			}
		})
	}
}
