#!/usr/bin/env bash
# Creates the bucket for backups, in your own account: private, versioned, and read or written by TLS only. It may be run
# again; a bucket policy and lifecycle rules that exist stay as they are. No rule here deletes a current object: tisnap
# delete and prune do that, together with the snapshots.
set -euo pipefail
bucket=BUCKET
region=us-west-2

# absent ACTION CODE succeeds if the bucket has no such setting. Any other answer that is not the setting ends the script:
# what cannot be read is not overwritten.
absent() {
  local answer
  if answer=$(aws s3api "$1" --bucket "$bucket" 2>&1); then
    return 1
  elif [[ $answer != *"($2)"* ]]; then
    echo "$answer" >&2
    exit 1
  fi
}

if ! aws s3api head-bucket --bucket "$bucket" >/dev/null 2>&1; then
  if [ "$region" = us-east-1 ]; then
    aws s3api create-bucket --bucket "$bucket" --region "$region"
  else
    aws s3api create-bucket --bucket "$bucket" --region "$region" \
      --create-bucket-configuration "LocationConstraint=$region"
  fi
fi
aws s3api put-public-access-block --bucket "$bucket" --public-access-block-configuration \
  BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true
aws s3api put-bucket-versioning --bucket "$bucket" --versioning-configuration Status=Enabled

if absent get-bucket-policy NoSuchBucketPolicy; then
  aws s3api put-bucket-policy --bucket "$bucket" --policy "$(cat <<EOF
{
  "Version": "2012-10-17",
  "Statement": [{
    "Effect": "Deny", "Principal": "*", "Action": "s3:*",
    "Resource": ["arn:aws:s3:::$bucket", "arn:aws:s3:::$bucket/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}}
  }]
}
EOF
)"
fi

if absent get-bucket-lifecycle-configuration NoSuchLifecycleConfiguration; then
  aws s3api put-bucket-lifecycle-configuration --bucket "$bucket" --lifecycle-configuration "$(cat <<EOF
{
  "Rules": [{
    "ID": "old-versions", "Status": "Enabled", "Filter": {},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}
  }]
}
EOF
)"
fi
