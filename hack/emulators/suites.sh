# shellcheck shell=bash
# The contracts, run on a third-party server. Sourced after lib.sh.

# rows prints the rows of a suite with the given result: PASS, SKIP or FAIL.
rows() { sed -nE "s|^ +--- $1: [A-Za-z0-9_]+/([A-Za-z0-9_]+) .*|\1|p" "$2"; }

# skipped prints each skipped row with its reason.
skipped() {
  awk '/^=== /{split($3, at, "/")} / the server lacks: /{sub(/.*lacks: /, ""); print at[2] " (lacks: " $0 ")"}' "$1"
}

# compile builds the tests of a package once, to run them several times.
compile() { (cd "$ROOT" && bounded 300 nice -n 10 go test -c -o "$RUN/$1.test" "./pkg/$1"); }

# judge fails unless rows passed and none failed, and notes what was skipped.
judge() {
  local what=$1 status=$2 log=$3 passed
  passed="$(rows PASS "$log" | wc -l)"
  if [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; then
    note "$what: FAILED, $passed rows passed; see $log"
    grep -v '^=== ' "$log" | head -60 >&2
    rows FAIL "$log" | sed 's/^/failed: /' >&2
    die "$what: the contract is not kept"
  fi
  note "$what: $passed rows pass, $(rows SKIP "$log" | wc -l) skipped"
  skipped "$log" | sort | while IFS= read -r row; do note "  skipped $row"; done
}

# ec2_suite runs the contract of pkg/ebs, direct_suite that of pkg/ebsdirect. The second argument lists what the emulator
# lacks: the suite's traits, separated by commas.
ec2_suite() { suite EC2 ebs TISNAP_TEST_EC2 "$@"; }
direct_suite() { suite 'EBS direct' ebsdirect TISNAP_TEST_EBS "$@"; }

# suite runs a contract. Rows skipped for what the emulator lacks must fail when they are run: otherwise the skip is
# obsolete.
suite() {
  local what=$1 package=$2 variable=$3 url=$4 lacks=$5 test=TestClient_Emulator_KeepsContract status=0 row
  local log="$RUN/$package.log" again="$RUN/$package-skipped.log"
  compile "$package"
  (cd "$ROOT/pkg/$package" && export "${variable}_EMULATOR=$url" "${variable}_LACKS=$lacks" &&
    bounded 120 "$RUN/$package.test" -test.v -test.timeout 110s -test.run "^$test\$") >"$log" 2>&1 || status=$?
  judge "$what" "$status" "$log"
  [ -n "$(rows SKIP "$log")" ] || return 0
  (cd "$ROOT/pkg/$package" && export "${variable}_EMULATOR=$url" "${variable}_LACKS=" &&
    bounded 120 "$RUN/$package.test" -test.v -test.timeout 110s \
    -test.run "^$test\$/^($(rows SKIP "$log" | paste -sd '|'))\$") >"$again" 2>&1 || true
  for row in $(rows SKIP "$log"); do
    rows FAIL "$again" | grep -qx "$row" || die "$what: $row is skipped but did not fail when it ran; take its trait out, or see $again"
  done
}

# s3_suite runs the contract of pkg/objstore in a bucket that exists, and in new ones. The third argument lists what the
# server lacks, as for the others.
s3_suite() {
  local url=$1 bucket=$2 lacks=${3:-} log="$RUN/s3.log" again="$RUN/s3-skipped.log" status=0 row
  compile objstore
  s3_tests '(TestContract|TestWire|TestBuckets)_External$' >"$log" 2>&1 || status=$?
  judge S3 "$status" "$log"
  [ -n "$(rows SKIP "$log")" ] || return 0
  lacks=
  s3_tests "TestBuckets_External\$/^($(rows SKIP "$log" | paste -sd '|'))\$" >"$again" 2>&1 || true
  for row in $(rows SKIP "$log"); do
    rows FAIL "$again" | grep -qx "$row" || die "S3: $row is skipped but did not fail when it ran; take its trait out, or see $again"
  done
}

# s3_tests runs some of them, with the variables of s3_suite.
s3_tests() {
  (cd "$ROOT/pkg/objstore" && TISNAP_TEST_S3="s3://$bucket" TISNAP_TEST_S3_LACKS="$lacks" AWS_ENDPOINT_URL_S3="$url" \
    bounded 120 "$RUN/objstore.test" -test.v -test.timeout 110s -test.run "^$1")
}
