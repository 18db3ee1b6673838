package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"strings"
	"sync"
)

// term is a word of a private language, with the one to use instead: one word an idea, and that the field's word.
type term struct {
	old *regexp.Regexp
	use string
	// within are the folders that the rule is about; none are all.
	within []string
	// except are files with the reason why they may have the word.
	except map[string]string
}

// anywhere are words that come back nowhere: not in code, comments, messages, documents or scripts.
func anywhere() []term {
	word := func(old, use string) term { return term{old: regexp.MustCompile(`(?i)\b(` + old + `)\b`), use: use} }
	return []term{
		word(`(go|goes|going|gone|went) on`, "resume or continue"),
		word(`(waiting does not )?mend(s|ed|ing)?`, "permanent; fix, repair or retry"),
		word(`anew`, "again or from scratch"),
		word(`(the|its|their) data serves?`, "once the cluster serves"),
		word(`for money|costs? money`, "billed by AWS"),
		word(`tell|tells|told`, "reports, logs, records or shows"),
		word(`whom(so)?ever`, "anyone"),
		word(`ours no more|no more ours|still ?ours`, "lost, still held"),
		word(`(stood|stands?|standing) still`, "suspended; does not change"),
		word(`amiss`, "what kind of error it is: mismatch, invalid, refused, failed"),
		word(`spoil(s|ed|t|ing)?`, "interrupted or cancelled"),
		word(`but for`, "except for, or apart from"),
		word(`not to be seen`, "can no longer be seen"),
		word(`initialis\w+`, "initialize"),
		word(`rosters?`, "a type named for what it is: pending stores"),
		word(`errands?`, "background task: name the job"),
		word(`doubtful`, "ambiguous").but("pkg/resolve/plan/summary_test.go", "the JSON of a plan, which stays as it is"),
		word(`(give|gives|given|giving|gave)Up`, "lost"),
		word(`taken?Over`, "lost"),
		word(`look(s|ed|ing)?At\w*`, "describe, check or poll"),
		word(`let(s|ting)? go( of)?|let(s|ting)? (it|them) go`, "release"),
		word(`(is|are|was|were) not known`, "unknown, or cannot tell whether"),
		word(`somebody(Else)?`, "someone"),
		word(`says|said|saying`, "reports, records, shows, has or names").in("pkg"),
		{old: regexp.MustCompile(`\b[Nn]obody(Else)?\b`), use: "what it is of: no run, no store; or a passive"},
		{
			old: regexp.MustCompile(`\bTest\w*(Says?|Said|Tells?|Told|Nobody|Somebody|LetGo|TakenBack)(\b|_|[A-Z])`),
			use: "what fails or is guaranteed: Reports, Names, Lists, Fails",
		},
		word(`(take|takes|taken|taking|took) back`, "flash back, or undo"),
	}
}

// names are words that nothing is named that a package declares: no type, function, method, field, constant or
// variable. Local variables and tests are free.
func names() []term {
	name := func(old, use string, within ...string) term {
		return term{old: regexp.MustCompile(`^(` + old + `)$`), use: use, within: within}
	}
	shipped := []string{
		"pkg/backup", "pkg/catalog", "pkg/cli", "pkg/ebs", "pkg/gc", "pkg/hold", "pkg/kube", "pkg/pd", "pkg/preflight", "pkg/resolve",
		"pkg/restore", "pkg/runlock", "pkg/tikv", "pkg/ui",
	}
	return []term{
		name(`(most|least)[A-Z]\w*`, "max or min"),
		name(`[Ww]rong|[Bb]roke`, "what kind of error it is: mismatch, invalid, refused, failed", shipped...),
		name(`look|look[A-TV-Z]\w*`, "describe, check or poll; pollInterval", shipped...),
		name(`again`, "what is retried: retryInterval"),
		name(`[sS]ay|[sS]ays|[sS]aid|[sS]ay[A-Z]\w*`, "what it does or is: Log, Print, Progress, message"),
		name(`task`, "what it is: a run, a region call"),
		name(`Kept`, "HeldLock", "pkg/runlock"),
		name(`[Yy]ield`, "lost", "pkg/runlock", "pkg/restore", "pkg/backup"),
		name(`elect|elect[A-Z]\w*`, "choose: raft's election is raft's", "pkg/resolve", "pkg/restore"),
		name(`recover|recover[A-Z]\w*|Recover`, "release leftovers", "pkg/hold"),
		name(`lane`, "store queue", "pkg/resolve"),
	}
}

// files are names of files that are meaningless or misleading.
func files() []term {
	file := func(old, use string, within ...string) term {
		return term{old: regexp.MustCompile(`^(` + old + `)$`), use: use, within: within}
	}
	return []term{
		file(`words\.go`, "convert.go", "pkg"),
		file(`(\w*_)?again(_test)?\.go`, "what is retried: retry_hold.go"),
		file(`given_up\w*\.go`, "what happens: ownership.go"),
		file(`(\w*_)?go_on(_test)?\.go`, "resume"),
		file(`elect\w*\.go`, "choose: raft's election is raft's"),
		file(`lane\.go`, "what it is: a store's queue", "pkg/resolve"),
		file(`recover\.go`, "release_leftovers.go", "pkg/hold"),
		file(`[a-z]\d*(_\w+)?_test\.go`, "what fails and not its code: cut_test.go", "tests/failures"),
	}
}

// The tables, compiled once.
var (
	oldWords = sync.OnceValue(anywhere)
	oldNames = sync.OnceValue(names)
	oldFiles = sync.OnceValue(files)
	// anyWord matches where at least one of oldWords does: most files have none.
	anyWord = sync.OnceValue(func() *regexp.Regexp {
		var all []string
		for _, t := range oldWords() {
			all = append(all, t.old.String())
		}
		return regexp.MustCompile(strings.Join(all, "|"))
	})
)

// jsonName is a name on the wire or in a journal; those stay as they are.
var jsonName = regexp.MustCompile("json:\"[^\"]*\"")

// Words returns the words of the old language in a file: Go, Markdown, a script, a manifest.
func Words(s Source) []Violation {
	var out []Violation
	for i, line := range strings.Split(string(s.Text), "\n") {
		if !anyWord().MatchString(line) {
			continue
		}
		line = jsonName.ReplaceAllString(line, "")
		for _, t := range oldWords() {
			if found := t.old.FindString(line); found != "" && t.isAbout(s.Path) {
				out = append(out, violation(s.Path+":"+itoa(i+1), "%q: use %s", found, t.use))
			}
		}
	}
	for _, t := range oldFiles() {
		if t.old.MatchString(path.Base(s.Path)) && t.isAbout(s.Path) {
			out = append(out, violation(s.Path, "the file's name: use %s", t.use))
		}
	}
	if strings.HasSuffix(s.Path, ".go") {
		out = append(out, identifiers(s)...)
	}
	return out
}

// identifiers checks what a Go file declares outside its functions, methods and fields among it.
func identifiers(s Source) []Violation {
	if s.isTest() || standIn(s.Path) {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, s.Path, s.Text, parser.SkipObjectResolution)
	if err != nil {
		return nil // Style reports it
	}
	var out []Violation
	check := func(ids ...*ast.Ident) {
		for _, id := range ids {
			for _, t := range oldNames() {
				if t.old.MatchString(id.Name) && t.isAbout(s.Path) {
					out = append(out, violation(s.Path+":"+itoa(set.Position(id.Pos()).Line), "%q: use %s", id.Name, t.use))
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			check(d.Name)
			return false
		case *ast.TypeSpec:
			check(d.Name)
		case *ast.ValueSpec:
			check(d.Names...)
		case *ast.StructType:
			for _, field := range d.Fields.List {
				check(field.Names...)
			}
		case *ast.InterfaceType:
			for _, method := range d.Methods.List {
				check(method.Names...)
			}
		}
		return true
	})
	return out
}

// standIn reports whether a file is a stand-in's: a store of its own may look at its own state.
func standIn(file string) bool { return testOnly(Module + "/" + path.Dir(file)) }

// in limits a term to folders.
func (t term) in(folders ...string) term {
	t.within = folders
	return t
}

// but exempts a file, for a reason.
func (t term) but(file, reason string) term {
	except := map[string]string{file: reason}
	maps.Copy(except, t.except)
	t.except = except
	return t
}

func (t term) isAbout(file string) bool {
	return t.except[file] == "" && (len(t.within) == 0 || anyBelow(file, t.within))
}
