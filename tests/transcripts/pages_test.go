package transcripts

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pingcap/log"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/tests/docs"
)

var update = flag.Bool("update", false, "write what is printed into the pages")

const root = "../.."

func TestMain(m *testing.M) {
	flag.Parse()
	// client-go of the workload logs through this global to stdout.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit))
}

// place is the testbed with the cluster that the pages are about.
type place struct {
	*testbed.Testbed
	faults *fault.Plan
	dead   *exec.Cmd // the backup that is killed
	cut    chan struct{}
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{faults: &fault.Plan{}, cut: make(chan struct{}, 1)}
	var err error
	p.Testbed, err = testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Nodes: 6, Scale: 20, TiKVScale: 20, Faults: p.faults,
		PodStart: testbed.RealPodStart, Resync: testbed.RealResync,
	})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	c, err := p.CreateCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: "prod"}, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 10_000, Regions: 60, Clients: 1})
	require.NoError(t, err)
	require.NoError(t, load.Load(t.Context()))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- load.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
		_ = load.Close()
	})
	return p
}

func (p *place) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), p.Env()...)
	cmd.Env = append(cmd.Env, "TISNAP_STORAGE=s3://"+testbed.Bucket+"/demo", "TISNAP_PROGRESS=none", "HOME="+t.TempDir())
	return cmd
}

// run runs a command line of a page and returns the lines that it prints.
func (p *place) run(t *testing.T, args []string) []string {
	t.Helper()
	require.Equal(t, "tisnap", args[0])
	printed, _ := p.command(t.Context(), t, args[1:]...).CombinedOutput() // some are refused, as the page shows
	if len(printed) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "early apply: unproven of ") // of regions whose leader moved, as some do in a new cluster
	})
}

// backUp makes a backup that a later block is about.
func (p *place) backUp(t *testing.T) {
	t.Helper()
	p.run(t, []string{"tisnap", "backup", "tidb/prod", "--name", "nightly-2"})
}

// hang starts a backup that hangs in its cut, with the cluster held: the first call is a dry run.
func (p *place) hang(t *testing.T) {
	t.Helper()
	require.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Stall, Do: func() { close(p.cut) }}))
	p.dead = p.command(context.WithoutCancel(t.Context()), t, "backup", "tidb/prod")
	require.NoError(t, p.dead.Start())
	t.Cleanup(func() { _ = p.dead.Process.Kill() })
	<-p.cut
}

// kill ends it as the kernel does.
func (p *place) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.dead.Process.Signal(syscall.SIGKILL))
	require.Error(t, p.dead.Wait())
}

// Every block of README and docs with a prompt is what the shipped program prints, in the order of the table.
func TestPages_ShowWhatTheProgramPrints(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	pages, err := docs.Pages(root)
	require.NoError(t, err)
	type key struct{ page, first string }
	blocks := map[key]string{}
	for page, text := range pages {
		for _, b := range docs.Blocks(text) {
			if commands := parse(b.Text); commands != nil {
				blocks[key{page, strings.Join(commands[0].args(), " ")}] = b.Text
			}
		}
	}
	const emergency = "docs/disaster-recovery.md"
	for _, scene := range []struct {
		key
		before func(*testing.T)
	}{
		{key{"README.md", "tisnap backup tidb/prod --name nightly-1 --storage s3://backups/demo"}, nil},
		{key{emergency, "tisnap list"}, nil},
		{key{"README.md", "tisnap restore nightly-1 --to tidb/copy --storage s3://backups/demo " +
			"--volume-type gp3 --volume-iops 7000 --volume-throughput 400"}, nil},
		{key{"docs/commands.md", "tisnap restore nightly-1 --to tidb/copy2 --volume-iops 90000"}, nil},
		{key{"docs/scripting.md", "tisnap describe none --progress json"}, nil},
		{key{emergency, "tisnap delete nightly-2 --dry-run"}, p.backUp},
		{key{emergency, "tisnap hold status tidb/prod"}, p.hang},
		{key{emergency, "tisnap release tidb/prod --yes --force"}, p.kill},
	} {
		t.Run(scene.page+": "+scene.first, func(t *testing.T) {
			if scene.before != nil {
				scene.before(t)
			}
			block, found := blocks[scene.key]
			require.True(t, found, "the page no longer has it")
			delete(blocks, scene.key)
			commands := parse(block)
			for i, c := range commands {
				printed := p.run(t, c.args())
				lines, ok := fit(c.output, printed)
				if !ok && *update {
					require.NotContains(t, c.output, left, "change it by hand; it prints:\n%s", strings.Join(printed, "\n"))
					lines, ok = printed, true
				}
				assert.True(t, ok, "tisnap prints (go test ./tests/transcripts -update):\n%s", strings.Join(printed, "\n"))
				commands[i].output = lines
			}
			if *update {
				write(t, scene.page, block, format(commands))
			}
		})
	}
	assert.Empty(t, blocks, "blocks with a prompt that no row of the table makes")
}

func write(t *testing.T, page, from, to string) {
	t.Helper()
	path := filepath.Join(root, page)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "```\n"+from))
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "```\n"+from, "```\n"+to, 1)), 0o600))
}
