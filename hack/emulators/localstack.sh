#!/usr/bin/env bash
# The EC2 and the S3 contract on LocalStack. Its EC2 is moto inside.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

VERSION=2026.3.0

install() {
  local interpreter
  installed && return
  if ! interpreter="$(find_python 3.13 3.12)"; then
    note "NOT RUN: it needs Python 3.12 or 3.13, and none is here"
    exit 0
  fi
  say "installing into $HOME_OF_IT"
  bounded 60 "$interpreter" -m venv "$HOME_OF_IT"
  bounded 120 nice -n 10 "$HOME_OF_IT/bin/pip" install --quiet uv
  # Later releases of what it depends on break it.
  bounded 300 nice -n 10 "$HOME_OF_IT/bin/uv" pip install --quiet --python "$HOME_OF_IT/bin/python" \
    --exclude-newer 2026-04-05 "localstack-core[runtime]==$VERSION"
  seal_tool "$HOME_OF_IT"
  exec 9>&-
}

begin
install
port="$(unused_port)"
# It takes the port and listens on all interfaces, whatever address it is given.
GATEWAY_LISTEN="127.0.0.1:$port" DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 DNS_ADDRESS=0 \
  start "$HOME_OF_IT/bin/python" -m localstack.runtime.main
await "http://127.0.0.1:$port/_localstack/health" 120
curl -fsS -o "$RUN/answer" --noproxy '*' --max-time 30 -X PUT \
  --aws-sigv4 "aws:amz:$AWS_REGION:s3" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "http://127.0.0.1:$port/tisnap"
s3_suite "http://127.0.0.1:$port" tisnap 'lifecycle rules without a filter'
ec2_suite "http://127.0.0.1:$port" 'client token,excluded volumes,escaped wildcards in filters,limits in the answer of a dry run,service quotas of EBS,fast snapshot restore,volume status,snapshot locks,initialization rate,snapshots shared between accounts,archive tier,refusals of archived snapshots'
