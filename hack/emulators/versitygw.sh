#!/usr/bin/env bash
# The S3 contract on versitygw.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

VERSION=v1.8.0
HOME_OF_VERSITYGW="$TOOLS/versitygw-$VERSION"

install() {
  installed "$HOME_OF_VERSITYGW" && return
  say "installing into $HOME_OF_VERSITYGW, which compiles for some minutes"
  mkdir -p "$HOME_OF_VERSITYGW"
  GOBIN="$HOME_OF_VERSITYGW" bounded 480 nice -n 10 go install "github.com/versity/versitygw/cmd/versitygw@$VERSION"
  touch "$HOME_OF_VERSITYGW/.whole"
}

begin
install
port="$(unused_port)"
mkdir -p "$RUN/data/tisnap" "$RUN/versions" # a folder is a bucket
ROOT_ACCESS_KEY="$AWS_ACCESS_KEY_ID" ROOT_SECRET_KEY="$AWS_SECRET_ACCESS_KEY" \
  start "$HOME_OF_VERSITYGW/versitygw" --port "127.0.0.1:$port" --region "$AWS_REGION" posix --versioning-dir "$RUN/versions" "$RUN/data"
await "http://127.0.0.1:$port/" 60
s3_suite "http://127.0.0.1:$port" tisnap
