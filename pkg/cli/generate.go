package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/generate"
)

func (a *app) generateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "generate",
		Annotations: without("wide", "name", "json", "yaml", jsonPath),
		Short:       "Print what tisnap needs on EKS, with your names filled in",
		Long: `Print what tisnap needs on EKS, with your names filled in: the bucket, the IAM policy and role,
the Kubernetes roles and the CronJob of the nightly backup.

It prints the files of manifests/ and contacts nothing: review the output, then apply it.
--namespace is where tisnap's pods run.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.generateIAMCommand(), a.generateRBACCommand(), a.generateCronJobCommand(),
		a.generateBucketCommand(), a.generateTerraformCommand())
	return cmd
}

// generated makes the output of a command from its arguments.
func (a *app) generated(cmd *cobra.Command, document func(args []string) ([]byte, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := document(args)
		if err != nil {
			return usage(cmd, err)
		}
		_, err = a.streams.Out.Write(text)
		return err
	}
	return cmd
}

// awsStorage is --storage, and the region that the AWS SDK would take from the flags and the environment.
func (a *app) awsStorage() (generate.Storage, error) {
	if a.global.storage == "" {
		return generate.Storage{}, failure.New(failure.Usage, "", "", "--storage is missing").
			WithHint("set --storage s3://bucket/prefix or TISNAP_STORAGE")
	}
	return generate.ParseStorage("--storage", a.global.storage, a.awsRegion())
}

func (a *app) awsRegion() string {
	return cmp.Or(a.global.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
}

// serviceAccountFlag is the same for all that is about the pods' ServiceAccount.
func serviceAccountFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "service-account", "tisnap", "ServiceAccount of tisnap's pods")
}

func (a *app) generateBucketCommand() *cobra.Command {
	return a.generated(&cobra.Command{
		Use:   "bucket",
		Short: "Print a script of aws commands that creates the bucket",
		Long: `Print a script of aws commands that creates the bucket: private, versioned, and by TLS only.
It can be run again, and it keeps a bucket policy and lifecycle rules that exist.`,
		Example: "  tisnap generate bucket --storage s3://backups/prod --region us-west-2 | bash",
		Args:    exactly(),
	}, func([]string) ([]byte, error) {
		s, err := a.awsStorage()
		if err != nil {
			return nil, err
		}
		return generate.Bucket(s)
	})
}

func (a *app) generateRBACCommand() *cobra.Command {
	var r generate.Roles
	cmd := a.generated(&cobra.Command{
		Use:   "rbac NAMESPACE...",
		Short: "Print the ServiceAccount, its roles and their bindings",
		Long: `Print the ServiceAccount of tisnap's pods, its roles in the namespaces of the TiDB clusters
(also of a restore's target), its role for cluster-scoped resources, and their bindings.

--namespace is where the pods run (default: the first NAMESPACE).`,
		Example: `  tisnap generate rbac tidb | kubectl apply -f -

  # pods in namespace backup, TiDB clusters in two others
  tisnap generate rbac tidb tidb-copy -n backup`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("NAMESPACE")(cmd, args)
			}
			return nil
		},
	}, func(args []string) ([]byte, error) {
		r.Namespaces, r.Account.Namespace = args, cmp.Or(a.global.namespace, args[0])
		return r.Objects()
	})
	serviceAccountFlag(cmd, &r.Account.Name)
	cmd.Flags().StringVar(&r.RoleARN, "role-arn", "",
		"ARN of the IAM role, for IRSA; EKS Pod Identity needs none here")
	cmd.Flags().BoolVar(&r.Drill, "drill", false,
		"add what tisnap drill needs, in all namespaces: it makes its own")
	cmd.Flags().StringSliceVar(&r.TLS, "tls-cluster", nil,
		"TidbCluster with TLS whose client secret may be read; may be repeated")
	return cmd
}
