package generate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/manifests"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/generate"
)

// A user's names: none of them is in manifests/.
const (
	arn      = "arn:aws:iam::444455556666:role/backups"
	key      = "arn:aws:kms:eu-west-1:444455556666:key/0f-1e"
	provider = "oidc.eks.eu-west-1.amazonaws.com/id/0A1B2C"
)

func storage() generate.Storage {
	return generate.Storage{Bucket: "acme-copies", Prefix: "live/db", Region: "eu-west-1"}
}

func account() generate.Account { return generate.Account{Namespace: "ops", Name: "saver"} }

func roles() generate.Roles {
	return generate.Roles{Account: account(), Namespaces: []string{"db-1", "db-2"}, TLS: []string{"main"}, RoleARN: arn}
}

func nightly() generate.Nightly {
	return generate.Nightly{
		Name: "evening", Account: account(), Cluster: cluster.Name{Namespace: "db-1", Name: "main"}, Storage: storage(),
		Image: "registry.acme.example/saver:v3", Schedule: "5 20 * * *", TimeZone: "Europe/Berlin",
		Keep: []string{"--keep-last=3", "--keep-tag=a,b"},
	}
}

func irsa() generate.Trust {
	return generate.Trust{
		Way: generate.IRSA, Account: account(), AWSAccount: "444455556666", Provider: "https://" + provider,
	}
}

func cloud(t generate.Trust) generate.Cloud {
	return generate.Cloud{Storage: storage(), Trust: t, Role: "backups", EKS: "acme", Keys: []string{key}}
}

// outputs are all that can be printed, with a user's names.
func outputs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(name string, text []byte, err error) {
		require.NoError(t, err, name)
		out[name] = string(text)
	}
	policy := func(name string, p generate.Policy, err error) {
		require.NoError(t, err, name)
		text, err := p.JSON()
		add(name, text, err)
	}
	pods := generate.Trust{Way: generate.PodIdentity, Account: account()}
	p, err := generate.Permissions(storage(), key)
	policy("policy", p, err)
	p, err = pods.Policy()
	policy("pod identity", p, err)
	p, err = irsa().Policy()
	policy("irsa", p, err)
	p, err = generate.CopySource(storage(), arn)
	policy("copy source", p, err)
	p, err = generate.CopyTarget(storage())
	policy("copy target", p, err)
	r := roles()
	r.Drill = true
	text, err := r.Objects()
	add("rbac", text, err)
	text, err = nightly().Objects()
	add("cronjob", text, err)
	text, err = nightly().Drills()
	add("drills", text, err)
	archives := nightly()
	archives.Repo = generate.Storage{Bucket: "acme-archives", Prefix: "db", Region: "eu-west-1"}
	text, err = archives.Archives()
	add("archives", text, err)
	archives.Workers, archives.RoleARN = 7, arn
	text, err = archives.Archives()
	add("archives by workers", text, err)
	archives.KMS = true
	text, err = archives.Archives()
	add("archives by workers, KMS", text, err)
	text, err = generate.Bucket(storage())
	add("bucket", text, err)
	text, err = cloud(pods).Terraform()
	add("terraform", text, err)
	text, err = cloud(irsa()).Terraform()
	add("terraform irsa", text, err)
	return out
}

func TestOutputs_HaveEveryNameOfTheUserAndNoneOfTheManifests(t *testing.T) {
	t.Parallel()
	theirs := regexp.MustCompile(`BUCKET|PREFIX|REGISTRY|\bACCOUNT\b|PROVIDER|TARGET_ROLE|EKS-CLUSTER|"KEY"|\d{4}2222\d{4}|us-west-2|` +
		`tidb/|tidb$|"tidb"|"tisnap"|[nN]ame: tisnap-|AccountName: tisnap|prod-|copy-`)
	for name, want := range map[string][]string{
		"policy":       {"arn:aws:s3:::acme-copies/live/db/*\"", "arn:aws:s3:::acme-copies\"", key},
		"pod identity": {`"aws:RequestTag/kubernetes-namespace": "ops"`, `"aws:RequestTag/kubernetes-service-account": "saver"`},
		"irsa": {
			`"arn:aws:iam::444455556666:oidc-provider/` + provider + `"`, `"` + provider + `:aud": "sts.amazonaws.com"`,
			`"` + provider + `:sub": "system:serviceaccount:ops:saver"`,
		},
		"rbac": {
			"eks.amazonaws.com/role-arn: " + arn, "namespace: ops", "namespace: db-1", "namespace: db-2", "name: saver-volumes",
			"name: saver-tls", "[main-cluster-client-secret]", "name: saver-drill",
		},
		"copy source": {`"arn:aws:s3:::acme-copies/live/db/locks/*"`, `"` + arn + `"`},
		"copy target": {`"arn:aws:s3:::acme-copies/live/db/*"`, "ec2:CopySnapshot"},
		"drills": {
			"AWS_REGION: eu-west-1", "TISNAP_STORAGE: s3://acme-copies/live/db", "CLUSTER: db-1/main", "name: evening",
			"serviceAccountName: saver", "image: registry.acme.example/saver:v3", `schedule: "5 20 * * *"`,
			"timeZone: Europe/Berlin", "--pick=oldest-undrilled",
		},
		"archives": {
			"TISNAP_STORAGE: s3://acme-copies/live/db", "TISNAP_REPO: s3://acme-archives/db", "CLUSTER: db-1/main", "name: evening",
			"serviceAccountName: saver", "image: registry.acme.example/saver:v3", `schedule: "5 20 * * *"`, "secretName: evening-key",
			"[archive, forget, --of=$(CLUSTER), --keep-last=3, '--keep-tag=a,b', --yes, --dry-run=false]",
		},
		"archives by workers": {
			"TISNAP_ON_KUBERNETES: \"true\"", "TISNAP_WORKERS: \"7\"", "TISNAP_WORKER_SECRET: evening-key",
			"TISNAP_WORKER_SERVICE_ACCOUNT: saver-worker", "TISNAP_IMAGE: registry.acme.example/saver:v3",
			"name: saver-jobs", "name: saver-worker", "eks.amazonaws.com/role-arn: " + arn,
		},
		"archives by workers, KMS": {"TISNAP_WORKER_SECRET: \"\""},
		"cronjob": {
			"AWS_REGION: eu-west-1", "TISNAP_STORAGE: s3://acme-copies/live/db", "CLUSTER: db-1/main", "name: evening",
			"serviceAccountName: saver", "image: registry.acme.example/saver:v3", `schedule: "5 20 * * *"`,
			"timeZone: Europe/Berlin", "[prune, $(CLUSTER), --keep-last=3, '--keep-tag=a,b', --yes, --dry-run=false]",
		},
		"bucket":         {"\nbucket=acme-copies\n", "\nregion=eu-west-1\n"},
		"terraform":      {`= "acme-copies"`, `= "eu-west-1"`, `= "backups"`, `= "acme"`, `= "ops"`, `= "saver"`, `"ops"`, key},
		"terraform irsa": {`"` + provider + `:sub": "system:serviceaccount:ops:saver"`, "/live/db/*", key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := outputs(t)[name]
			for _, name := range want {
				assert.Contains(t, text, name)
			}
			for line := range strings.Lines(text) {
				code, _, _ := strings.Cut(strings.TrimSpace(line), "#")
				assert.NotRegexp(t, theirs, code)
				assert.False(t, name == "rbac" && strings.Contains(code, "tisnap"), code)
			}
		})
	}
}

// What has no name in it is printed as it is in manifests/.
func TestOutputs_NamesOfTheManifests_AreTheirBytes(t *testing.T) {
	t.Parallel()
	file := func(name string) string {
		text, err := manifests.Files.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	text := func(p generate.Policy, err error) string {
		require.NoError(t, err)
		out, err := p.JSON()
		require.NoError(t, err)
		return string(out)
	}
	there := generate.Storage{Bucket: "BUCKET", Prefix: "PREFIX", Region: "us-west-2"}
	theirs := generate.Account{Namespace: "tidb", Name: "tisnap"}
	assert.Equal(t, file("iam-policy.json"), text(generate.Permissions(there)))
	assert.Equal(t, file("iam-policy-copy-target.json"), text(generate.CopyTarget(there)))
	assert.Equal(t, strings.ReplaceAll(file("iam-policy-copy-source.json"), "TARGET_ROLE", arn), text(generate.CopySource(there, arn)))
	assert.Equal(t, file("iam-policy-archive.json"), text(generate.Repository(there, false)))
	more := file("iam-policy-archive-retention.json")
	statement := more[strings.Index(more, "    {"):strings.Index(more, "  ]\n}\n")]
	assert.Contains(t, text(generate.Repository(there, true)), statement)
	assert.Equal(t, file("iam-trust-pod-identity.json"), text(generate.Trust{Account: theirs}.Policy()))
	of := irsa()
	of.Account = theirs
	assert.Equal(t, strings.NewReplacer("ACCOUNT", of.AWSAccount, "PROVIDER", provider).Replace(file("iam-trust-irsa.json")), text(of.Policy()))
	other := generate.Trust{Way: generate.ByRole, Role: "arn:aws:iam::444455556666:role/saver", ExternalID: "live/db"}
	assert.Equal(t, strings.NewReplacer("TRUSTED_ROLE", other.Role, "EXTERNAL_ID", "live/db").Replace(file("iam-trust-role.json")), text(other.Policy()))
	other.ExternalID = ""
	assert.NotContains(t, text(other.Policy()), "Condition")
	assert.Equal(t, 2, strings.Count(text(other.Policy()), other.Role))
	script, err := generate.Bucket(there)
	require.NoError(t, err)
	assert.Equal(t, file("bucket.sh"), string(script))
}

func TestPermissions_NoPrefix_IsTheWholeBucket(t *testing.T) {
	t.Parallel()
	s, err := generate.ParseStorage("--storage", "s3://acme-copies/", "")
	require.NoError(t, err)
	p, err := generate.Permissions(s)
	require.NoError(t, err)
	on := map[string]bool{}
	for _, statement := range p.Statement {
		if strings.Contains(statement.Resource, ":s3:") {
			on[statement.Resource] = true
		}
	}
	assert.Equal(t, map[string]bool{"arn:aws:s3:::acme-copies/*": true, "arn:aws:s3:::acme-copies": true}, on)
}

func TestARNs_AreOfTheRegionsPartition(t *testing.T) {
	t.Parallel()
	for region, prefix := range map[string]string{"cn-north-1": "arn:aws-cn:", "us-gov-west-1": "arn:aws-us-gov:"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			c := cloud(irsa())
			c.Storage.Region, c.Keys = region, nil
			text, err := c.Terraform()
			require.NoError(t, err)
			script, err := generate.Bucket(c.Storage)
			require.NoError(t, err)
			assert.Contains(t, string(text), prefix+"iam::")
			assert.Contains(t, string(text), prefix+"s3:::")
			assert.Contains(t, string(script), prefix+"s3:::")
			assert.NotContains(t, string(text)+string(script), "arn:aws:")
		})
	}
}

// Nothing that a name could carry gets into a script, Terraform or a policy.
func TestNames_ThatCannotBeOne_AreRefused(t *testing.T) {
	t.Parallel()
	parse := func(url, region string) error {
		_, err := generate.ParseStorage("--storage", url, region)
		return err
	}
	ofRoles := func(change func(*generate.Roles)) error {
		r := roles()
		change(&r)
		_, err := r.Objects()
		return err
	}
	ofNight := func(change func(*generate.Nightly)) error {
		n := nightly()
		change(&n)
		_, err := n.Objects()
		return err
	}
	ofCloud := func(changes ...func(*generate.Cloud)) error {
		c := cloud(irsa())
		for _, change := range changes {
			change(&c)
		}
		_, err := c.Terraform()
		return err
	}
	pods := func(c *generate.Cloud) { c.Trust.Way = generate.PodIdentity }
	for flag, errs := range map[string][]error{
		"--storage": {
			parse("file:///backups", ""), parse("s3://", ""), parse("s3://A/b", ""), parse("s3://abc/$(id)", ""),
			parse("s3://abc/${x}", ""), parse("s3://abc/*", ""), parse(`s3://abc/"`, ""), parse("s3://abc/%{x}", ""),
		},
		"--region": {
			parse("s3://abc", "west"), parse("s3://abc", "us-west-2; id"),
			ofNight(func(n *generate.Nightly) { n.Storage.Region = "" }), ofCloud(func(c *generate.Cloud) { c.Storage.Region = "" }),
		},
		"--namespace": {
			ofRoles(func(r *generate.Roles) { r.Account.Namespace = "" }), ofNight(func(n *generate.Nightly) { n.Account.Namespace = "A" }),
			ofCloud(func(c *generate.Cloud) { c.Trust.Account.Namespace = `a"b` }),
		},
		"namespace":         {ofRoles(func(r *generate.Roles) { r.Namespaces = []string{"db-1", "db/2"} })},
		"--service-account": {ofRoles(func(r *generate.Roles) { r.Account.Name = "a b" })},
		"--tls-cluster":     {ofRoles(func(r *generate.Roles) { r.TLS = []string{"ops/main"} })},
		"--role-arn":        {ofRoles(func(r *generate.Roles) { r.RoleARN = "backups" })},
		"--image": {
			ofNight(func(n *generate.Nightly) { n.Image = "" }), ofNight(func(n *generate.Nightly) { n.Image = "a b" }),
		},
		"--name":     {ofNight(func(n *generate.Nightly) { n.Name = "Nightly" })},
		"--schedule": {ofNight(func(n *generate.Nightly) { n.Schedule = "2:17" })},
		"--account":  {ofCloud(func(c *generate.Cloud) { c.Trust.AWSAccount = "4444" })},
		"--oidc-provider": {
			ofCloud(func(c *generate.Cloud) { c.Trust.Provider = "" }), ofCloud(func(c *generate.Cloud) { c.Trust.Provider = provider + `"` }),
		},
		"--role":        {ofCloud(func(c *generate.Cloud) { c.Role = "a b" })},
		"--kms-key":     {ofCloud(func(c *generate.Cloud) { c.Keys = []string{"alias/backups"} })},
		"--eks-cluster": {ofCloud(pods, func(c *generate.Cloud) { c.EKS = "" })},
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			for i, err := range errs {
				require.ErrorContains(t, err, flag, "%d", i)
				assert.Equal(t, failure.Usage, failure.KindOf(err), "%d", i)
			}
		})
	}
}

// The rights for a repository with a retention are those that docs/archive.md explains.
func TestRepository_IsWhatThePageLists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/archive.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "## Object Lock")
	text, _, _ = strings.Cut(text, "## Make an archive")
	listed := map[string]bool{"s3:GetObject": true}
	for _, action := range regexp.MustCompile("`(s3:[A-Za-z]+)`").FindAllStringSubmatch(text, -1) {
		if action[1] != "s3:BypassGovernanceRetention" {
			listed[action[1]] = true
		}
	}
	granted := func(retained bool) map[string]bool {
		p, err := generate.Repository(generate.Storage{Bucket: "archive", Prefix: "prod"}, retained)
		require.NoError(t, err)
		actions := map[string]bool{}
		for _, statement := range p.Statement {
			for _, action := range statement.Action {
				actions[action] = true
			}
			assert.Contains(t, []string{"arn:aws:s3:::archive", "arn:aws:s3:::archive/prod/*"}, statement.Resource)
		}
		return actions
	}
	assert.Equal(t, listed, granted(true))
	delete(listed, "s3:PutObjectRetention")
	assert.Equal(t, listed, granted(false), "a bucket with Object Lock is read by version, whoever locks what is in it")
}

// The sessions of EKS Pod Identity have transitive tags: STS refuses to assume a further role unless its trust policy
// allows the tags, too, and asks for no external id there.
func TestTrust_ByRole_TakesTheTagsOfPodIdentity(t *testing.T) {
	t.Parallel()
	for _, externalID := range []string{"", "live/db"} {
		p, err := generate.Trust{Way: generate.ByRole, Role: arn, ExternalID: externalID}.Policy()
		require.NoError(t, err)
		without := map[string]bool{}
		for _, s := range p.Statement {
			assert.Equal(t, map[string]string{"AWS": arn}, s.Principal)
			for _, action := range s.Action {
				without[action] = s.Condition == nil
			}
		}
		assert.Equal(t, map[string]bool{"sts:AssumeRole": externalID == "", "sts:TagSession": true}, without)
	}
	p, err := generate.CopySource(storage(), arn)
	require.NoError(t, err)
	last := p.Statement[len(p.Statement)-1]
	assert.Equal(t, arn, last.Resource)
	assert.Equal(t, []string{"sts:AssumeRole", "sts:TagSession"}, last.Action)
}
