package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who has a cluster has a backup after at most twelve commands, and those of tisnap among them print something.
func TestDocs_FirstBackup_TakesTwelveCommands(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(userPages(t)["docs/eks.md"], "## Start here if you have a cluster\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.ReplaceAll(section, "\\\n", "")
	var commands []string
	for i, block := range strings.Split(section, "```") {
		if i%2 == 1 {
			commands = append(commands, strings.Split(strings.TrimSpace(block), "\n")...)
		}
	}
	require.Contains(t, section, "create job")
	assert.LessOrEqual(t, len(commands), 12)
	called := regexp.MustCompile(`tisnap (generate [^|)]+)`).FindAllStringSubmatch(strings.Join(commands, "\n"), -1)
	assert.Len(t, called, 4)
	for _, call := range called {
		t.Run(call[1], func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(call[1]), "--storage=s3://acme/db", "--region=eu-west-1") // as the first line exports
			if args[1] == "cronjob" {
				args = append(args, "--image=acme/tisnap:v1")
			}
			code, out, stderr := run(t, args...)
			require.Equal(t, ExitDone, code, stderr)
			assert.NotEmpty(t, out)
		})
	}
}

func TestGenerate_NamespaceOfThePods(t *testing.T) {
	t.Parallel()
	const flags = " --storage=s3://acme/db --region=eu-west-1"
	for args, want := range map[string][]string{
		"generate rbac db-1 db-2":              {"ServiceAccount\nmetadata:\n  name: tisnap\n  namespace: db-1\n", "namespace: db-2"},
		"generate rbac db-1 -n ops":            {"ServiceAccount\nmetadata:\n  name: tisnap\n  namespace: ops\n", "namespace: db-1"},
		"generate cronjob db-1/a --image=b":    {"namespace: db-1", "CLUSTER: db-1/a"},
		"generate cronjob a -n db-1 --image=b": {"namespace: db-1", "CLUSTER: db-1/a"},
		"generate cronjob db-1/a -n ops --image=b --keep-within=30d --keep-tag=x --keep-tag=y": {
			"namespace: ops", "CLUSTER: db-1/a", "[prune, $(CLUSTER), '--keep-tag=x,y', --keep-within=30d, --yes",
		},
		"generate iam --trust=pod-identity -n ops":                                 {`"aws:RequestTag/kubernetes-namespace": "ops"`},
		"generate terraform -n ops --eks-cluster=acme":                             {`= "ops"`},
		"generate iam --archive-key=" + archiveKey:                                 {`"kms:Encrypt"`, archiveKey, `"kms:EncryptionContext:tisnap.io/repository": "false"`},
		"generate terraform -n ops --eks-cluster=acme --archive-key=" + archiveKey: {`kms:Encrypt`, archiveKey},
		"generate iam --for=archive --repo=s3://acme-archive/c --retention --archive-key=" + archiveKey: {
			`"s3:PutObjectRetention"`, `"arn:aws:s3:::acme-archive/c/*"`, archiveKey,
		},
		"generate iam --trust=role --trusted-role=arn:aws:iam::444455556666:role/a --external-id=b/c": {
			`"AWS": "arn:aws:iam::444455556666:role/a"`, `"sts:ExternalId": "b/c"`,
		},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, strings.Fields(args+flags)...)
			require.Equal(t, ExitDone, code, stderr)
			for _, text := range want {
				assert.Contains(t, out, text)
			}
		})
	}
	for args, want := range map[string]string{
		"generate rbac": "NAMESPACE is missing", "generate iam --trust=pod-identity": "--namespace is missing",
		"generate iam --trust=role": "--trusted-role", "generate iam --external-id=a": "go with --trust role",
		"generate iam --trust=role --trusted-role=arn:aws:iam::444455556666:role/a --external-id=?":    "--external-id",
		"generate iam --trust=pod-identity -n ops --kms-key=arn:aws:kms:eu-west-1:444455556666:key/0f": "mutually exclusive",
		"generate iam --archive-key=alias/prod":                                                        "--archive-key",
		"generate cronjob db/a --image=b --archive":                                                    "--repo is missing", "generate cronjob db/a --image=b --repo=s3://b1/c": "--repo, --kms and --workers go with --archive",
		"generate cronjob db/a --image=b --workers=3":                                                          "--repo, --kms and --workers go with --archive",
		"generate cronjob db/a --image=b --archive --repo=s3://acme-archive/c --worker-role-arn=x":             "with --worker-role-arn at least 1",
		"generate cronjob db/a --image=b --archive --repo=s3://acme-archive/c --workers=2 --worker-role-arn=x": "--worker-role-arn",

		"generate cronjob db/a --image=b --keep-daily=0": "no rule chooses what to keep", "generate bucket -o json": "want table",
		"generate iam --for=archive": "--for archive goes with --repo", "generate iam --repo=s3://acme-archive/c": "--repo and --retention go with --for archive",
		"generate iam --for=archive --repo=file:///x": "--repo",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, strings.Fields(args+flags)...)
			assert.Equal(t, ExitCode(2), code)
			assert.Contains(t, stderr, want)
		})
	}
}
