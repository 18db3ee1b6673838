# The role of --ebs-role-arn, in the account of the volumes and snapshots, where that is another than the one of tisnap's
# own role. Apply it there. The trusted role needs sts:AssumeRole and sts:TagSession on this one: the sessions of EKS Pod
# Identity have tags that pass on.
locals {
  role         = "tisnap-ebs"
  trusted_role = "TRUSTED_ROLE"
  external_id  = "EXTERNAL_ID" # of --ebs-external-id
}

resource "aws_iam_role" "ebs" {
  name = local.role
  assume_role_policy = replace(replace(file("${path.module}/../../iam-trust-role.json"),
  "TRUSTED_ROLE", local.trusted_role), "EXTERNAL_ID", local.external_id)
}

# Its statements about S3 can be left out: S3 is called with tisnap's own role.
resource "aws_iam_role_policy" "ebs" {
  role   = aws_iam_role.ebs.id
  policy = file("${path.module}/../../iam-policy.json")
}

output "ebs_role_arn" {
  value = aws_iam_role.ebs.arn
}
