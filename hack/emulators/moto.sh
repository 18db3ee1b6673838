#!/usr/bin/env bash
# The contracts of EC2 and the EBS direct APIs on moto.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/suites.sh"

VERSION=5.2.5

install() {
  local interpreter
  installed && return
  if ! interpreter="$(find_python 3.11 3.12 3.13 3.10 3.9)"; then
    note "NOT RUN: it needs Python 3.9 to 3.13, and none is here"
    exit 0
  fi
  say "installing into $HOME_OF_IT"
  bounded 60 "$interpreter" -m venv "$HOME_OF_IT"
  bounded 300 nice -n 10 "$HOME_OF_IT/bin/pip" install --quiet "moto[server]==$VERSION"
  seal_tool "$HOME_OF_IT"
  exec 9>&-
}

begin
install
port="$(unused_port)"
MOTO_EC2_LOAD_DEFAULT_AMIS=false start "$HOME_OF_IT/bin/moto_server" -H 127.0.0.1 -p "$port"
await "http://127.0.0.1:$port/moto-api/" 60
ec2_suite "http://127.0.0.1:$port" 'client token,excluded volumes,escaped wildcards in filters,limits in the answer of a dry run,service quotas of EBS,fast snapshot restore,volume status,snapshot locks,initialization rate,snapshots shared between accounts,refusals of archived snapshots,refusals of disabled keys'
direct_suite "http://127.0.0.1:$port" 'client token,parents,changed blocks,checksums that are checked,states that are checked,errors of missing snapshots,lists in the order of indexes,lists from an index on'
