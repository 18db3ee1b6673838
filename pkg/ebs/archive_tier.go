package ebs

import "fmt"

// BackFromArchive is a hint on how to bring snapshots back from the archive tier, and how long that takes. The first
// page has the time, the second the commands.
// https://docs.aws.amazon.com/ebs/latest/userguide/snapshot-archive-considerations.html
// https://docs.aws.amazon.com/ebs/latest/userguide/restore-archived-snapshot.html
func BackFromArchive(region string) string {
	return fmt.Sprintf("bring each back from the archive tier, which takes up to 72 hours and is billed by AWS: "+
		"aws ec2 restore-snapshot-tier --region %s --snapshot-id ID --temporary-restore-days 7 "+
		"(or --permanent-restore); then run this again, when aws ec2 describe-snapshot-tier-status "+
		"shows each in the tier standard", region)
}
