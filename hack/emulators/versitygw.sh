#!/usr/bin/env bash
# The S3 contract on versitygw.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

VERSION=v1.8.0

install() {
  installed && return
  say "installing into $HOME_OF_IT, which compiles for some minutes"
  mkdir -p "$HOME_OF_IT"
  CGO_ENABLED=0 GOBIN="$HOME_OF_IT" bounded 480 nice -n 10 go install -trimpath "github.com/versity/versitygw/cmd/versitygw@$VERSION"
  seal_tool "$HOME_OF_IT"
  exec 9>&-
}

begin
install
port="$(unused_port)"
mkdir -p "$RUN/data/tisnap" "$RUN/versions" # a folder is a bucket
ROOT_ACCESS_KEY="$AWS_ACCESS_KEY_ID" ROOT_SECRET_KEY="$AWS_SECRET_ACCESS_KEY" \
  start "$HOME_OF_IT/versitygw" --port "127.0.0.1:$port" --region "$AWS_REGION" posix --versioning-dir "$RUN/versions" "$RUN/data"
await "http://127.0.0.1:$port/" 60
s3_suite "http://127.0.0.1:$port" tisnap 'lifecycle,lifecycle rules without a filter,free keys behind delete markers,default retentions of objects'
