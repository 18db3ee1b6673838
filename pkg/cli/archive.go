package cli

import "github.com/spf13/cobra"

func (a *app) archiveCommand() *cobra.Command {
	var repo repoFlags
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Make and read archives: copies of backups outside EBS",
		Long: `Make and read archives: copies of backups outside EBS.

An archive has the blocks of a backup's volumes, or of other ones that were imported, compressed and
encrypted, in a repository: a prefix in S3-compatible storage, or a folder. A repository is unlocked by an age identity or a
passphrase. Whoever loses all of its keys has lost its archives.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	repo.add(cmd.PersistentFlags())
	cmd.AddCommand(a.archiveInitCommand(&repo), a.archiveCreateCommand(&repo), a.archiveJoinCommand(&repo),
		a.archiveImportCommand(&repo), a.archiveListCommand(&repo),
		a.archiveDescribeCommand(&repo), a.archiveCatCommand(&repo), a.archiveFillCommand(&repo),
		a.archiveVerifyCommand(&repo),
		a.archiveRestoreCommand(&repo), a.archiveForgetCommand(&repo), a.archivePruneCommand(&repo),
		a.archiveRepairCommand(&repo), a.archiveKeyCommand(&repo), a.archiveBenchCommand())
	return cmd
}
