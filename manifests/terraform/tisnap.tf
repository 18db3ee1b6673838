# The bucket for backups, and the IAM role of the pods that take and restore them. The policies are those of ../*.json.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.31"
    }
  }
}

locals {
  region          = "us-west-2"
  bucket          = "BUCKET"
  role            = "tisnap"
  namespace       = "tidb"
  service_account = "tisnap"
}

provider "aws" {
  region = local.region
}

# No rule here deletes a current object: tisnap delete and prune do that, together with the snapshots.
resource "aws_s3_bucket" "backups" {
  bucket = local.bucket
}

resource "aws_s3_bucket_public_access_block" "backups" {
  bucket                  = aws_s3_bucket.backups.id
  block_public_acls       = true
  ignore_public_acls      = true
  block_public_policy     = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_versioning" "backups" {
  bucket = aws_s3_bucket.backups.id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "backups" {
  bucket = aws_s3_bucket_versioning.backups.id
  rule {
    id     = "old-versions"
    status = "Enabled"
    filter {}
    noncurrent_version_expiration {
      noncurrent_days = 30
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

resource "aws_s3_bucket_policy" "backups" {
  bucket = aws_s3_bucket_public_access_block.backups.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.backups.arn, "${aws_s3_bucket.backups.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

resource "aws_iam_role" "pods" {
  name               = local.role
  assume_role_policy = file("${path.module}/../iam-trust-pod-identity.json")
}

resource "aws_iam_role_policy" "pods" {
  role   = aws_iam_role.pods.id
  policy = file("${path.module}/../iam-policy.json")
}

output "role_arn" {
  value = aws_iam_role.pods.arn
}
