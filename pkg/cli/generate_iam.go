package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/generate"
)

// The roles for copies, and for archives.
const (
	forCopySource = "copy-source"
	forCopyTarget = "copy-target"
	forArchive    = "archive"
)

// trustFlags adds the flags for which pods may use the IAM role, and how they get it.
func trustFlags(cmd *cobra.Command, t *generate.Trust) {
	serviceAccountFlag(cmd, &t.Account.Name)
	cmd.Flags().StringVar(&t.AWSAccount, "account", "", "id of the AWS account, for irsa")
	cmd.Flags().StringVar(&t.Provider, "oidc-provider", "",
		"the EKS cluster's OIDC issuer, for irsa: oidc.eks.REGION.amazonaws.com/id/ID")
}

// trustRoleFlags adds the flags for who may use the IAM role, pods or another role.
func trustRoleFlags(cmd *cobra.Command, t *generate.Trust) {
	ways := optional(string(generate.PodIdentity), string(generate.IRSA), string(generate.ByRole))
	choose(cmd, cmd.Flags(), &t.Way, "trust", ways,
		"print the role's trust policy instead, for EKS Pod Identity, IRSA, or who has another role")
	cmd.Flags().StringVar(&t.Role, "trusted-role", "", "ARN of the role that may assume it, for role")
	cmd.Flags().StringVar(&t.ExternalID, "external-id", "", "what it has to pass, by --ebs-external-id; for role")
}

// checkTrust refuses flags that do not go with the way in which the role is got.
func checkTrust(t generate.Trust, keys int) error {
	switch {
	case t.Way != "" && keys > 0:
		return failure.New(failure.Usage, "", "", "--trust and --kms-key or --archive-key are mutually exclusive: "+
			"keys are in the role's policy, not in its trust policy")
	case (t.Role != "" || t.ExternalID != "") && t.Way != generate.ByRole:
		return failure.New(failure.Usage, "", "", "--trusted-role and --external-id go with --trust role")
	}
	return nil
}

func kmsKeysFlag(flags *pflag.FlagSet, keys *[]string) {
	flags.StringSliceVar(keys, "kms-key", nil, "ARN of a KMS key of the volumes or snapshots; may be repeated")
}

func (a *app) generateIAMCommand() *cobra.Command {
	var t generate.Trust
	var keys, archiveKeys []string
	var of, targetRole, repo string
	var retained bool
	cmd := a.generated(&cobra.Command{
		Use:   "iam",
		Short: "Print the IAM policy of tisnap's role, or with --trust who may use that role",
		Long: `Print the IAM policy of tisnap's role, or with --trust who may use that role.

With --for it is the policy of a role for copies: copy-source of the one that reads backups in
--storage, shares their snapshots and assumes --target-role; copy-target of that role, which
keeps the copies in --storage. With --for archive it is what the repository of archives, --repo,
needs in addition to the policy of tisnap's role; --retention for one that Object Lock retains.`,
		Example: `  tisnap generate iam --storage s3://backups/prod > policy.json

  # the role's trust policy, for pods with the ServiceAccount tidb/tisnap
  tisnap generate iam --trust pod-identity -n tidb > trust.json

  # of a role in another account, which tisnap's own assumes by --ebs-role-arn
  tisnap generate iam --trust role --trusted-role arn:aws:iam::111122223333:role/tisnap \
    --external-id prod-backups > trust.json

  # of a role for copies, in the account that gets them
  tisnap generate iam --for copy-target --storage s3://dr/prod > copy-target.json

  # in addition, of who makes and prunes archives in a repository with a retention
  tisnap generate iam --for archive --repo s3://archive/prod --retention > archive.json`,
		Args: exactly(),
	}, func([]string) ([]byte, error) {
		if of == forArchive {
			if t.Way != "" || len(keys) > 0 || targetRole != "" || repo == "" {
				return nil, failure.New(failure.Usage, "", "", "--for archive goes with --repo, --retention and "+
					"--archive-key alone")
			}
			return asJSON(a.repositoryPolicy(repo, retained, archiveKeys))
		}
		if retained || repo != "" {
			return nil, failure.New(failure.Usage, "", "", "--repo and --retention go with --for archive")
		}
		if of != "" && (t.Way != "" || len(keys)+len(archiveKeys) > 0) || (of == forCopySource) != (targetRole != "") {
			return nil, failure.New(failure.Usage, "", "", "--for goes without --trust and keys, "+
				"and --for copy-source with --target-role")
		}
		if err := checkTrust(t, len(keys)+len(archiveKeys)); err != nil {
			return nil, err
		}
		if t.Way != "" {
			t.Account.Namespace, t.Region = a.global.namespace, a.awsRegion()
			return asJSON(t.Policy())
		}
		s, err := a.awsStorage()
		if err != nil {
			return nil, err
		}
		switch of {
		case forCopySource:
			return asJSON(generate.CopySource(s, targetRole))
		case forCopyTarget:
			return asJSON(generate.CopyTarget(s))
		}
		p, err := generate.Permissions(s, keys...)
		if err == nil {
			err = p.AddArchiveKeys(archiveKeys...)
		}
		return asJSON(p, err)
	})
	choose(cmd, cmd.Flags(), &of, "for", optional(forCopySource, forCopyTarget, forArchive),
		"print the policy of a role for copies, or what archives need in addition")
	cmd.Flags().StringVar(&repo, "repo", "", "with --for archive: the archive repository, s3://bucket/prefix")
	cmd.Flags().BoolVar(&retained, "retention", false, "with --for archive: the repository has a retention")
	cmd.Flags().StringVar(&targetRole, "target-role", "", "ARN of the role in the target's account, for copy-source")
	trustRoleFlags(cmd, &t)
	trustFlags(cmd, &t)
	kmsKeysFlag(cmd.Flags(), &keys)
	archiveKeysFlag(cmd.Flags(), &archiveKeys)
	return cmd
}

func archiveKeysFlag(flags *pflag.FlagSet, keys *[]string) {
	flags.StringSliceVar(keys, "archive-key", nil,
		"ARN of a KMS key that unlocks a repository of archives; may be repeated")
}

// repositoryPolicy is what a repository of archives and its keys need.
func (a *app) repositoryPolicy(repo string, retained bool, keys []string) (p generate.Policy, err error) {
	s, err := generate.ParseStorage("--repo", repo, a.awsRegion())
	if err != nil {
		return p, err
	}
	if p, err = generate.Repository(s, retained); err == nil {
		err = p.AddArchiveKeys(keys...)
	}
	return p, err
}

func asJSON(p generate.Policy, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return p.JSON()
}

func (a *app) generateTerraformCommand() *cobra.Command {
	var c generate.Cloud
	cmd := a.generated(&cobra.Command{
		Use:   "terraform",
		Short: "Print a Terraform configuration of the bucket and the IAM role",
		Long: `Print a Terraform configuration, in one file: the bucket, the IAM role with its policy, and the
association that gives it to tisnap's pods.

With --trust irsa there is no association: pass the role's ARN to tisnap generate rbac.`,
		Example: `  tisnap generate terraform --storage s3://backups/prod --region us-west-2 \
    --eks-cluster tidb -n tidb > tisnap.tf`,
		Args: exactly(),
	}, func([]string) (_ []byte, err error) {
		if c.Storage, err = a.awsStorage(); err != nil {
			return nil, err
		}
		c.Trust.Account.Namespace = a.global.namespace
		return c.Terraform()
	})
	choose(cmd, cmd.Flags(), &c.Trust.Way, "trust", []string{string(generate.PodIdentity), string(generate.IRSA)},
		"how the pods get the role")
	trustFlags(cmd, &c.Trust)
	kmsKeysFlag(cmd.Flags(), &c.Keys)
	archiveKeysFlag(cmd.Flags(), &c.ArchiveKeys)
	cmd.Flags().StringVar(&c.EKS, "eks-cluster", "", "name of the EKS cluster, for pod-identity")
	cmd.Flags().StringVar(&c.Role, "role", "tisnap", "name of the IAM role")
	return cmd
}
