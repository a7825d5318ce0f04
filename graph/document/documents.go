package document

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	maxCachedBytes = 12 << 20            // of memory, for all parsed documents
	maxCachedQuery = maxCachedBytes / 16 // of memory, for one of them; larger ones are parsed each time
	BytesPerToken  = 400                 // of memory that a parsed token takes at most, with its part in a plan
)

// Options of Documents. Schema is required.
type Options struct {
	Schema *ast.Schema

	// Trusted, if set, are the only documents to execute. Default: all valid ones.
	Trusted *Trusted

	// Suggestions has error messages suggest names of the schema.
	Suggestions bool
}

// Documents is how a server reads documents: it parses, validates and limits them, caches what
// it has parsed, and knows persisted and trusted documents by their hash or id.
type Documents struct {
	options   Options
	parsed    *byteCache[*parsedDocument] // by text
	persisted *byteCache[string]          // texts by their SHA-256, all of which have passed every check
}

// parsedDocument is a document and what Memo holds for its operations.
type parsedDocument struct {
	*ast.QueryDocument
	memo sync.Map // by *ast.OperationDefinition
}

var _ graphql.Cache[*ast.QueryDocument] = (*Documents)(nil)

// New returns a Documents with empty caches.
func New(o Options) *Documents {
	return &Documents{options: o, parsed: newByteCache[*parsedDocument](maxCachedBytes), persisted: newByteCache[string](PersistedBytes)}
}

// Install has an executor read documents. Install is called before other extensions are used.
func (d *Documents) Install(exec *executor.Executor) {
	exec.SetQueryCache(d)
	exec.SetParserTokenLimit(MaxTokens)
	exec.SetDefaultRulesFn(validationRules)
	if !d.options.Suggestions {
		exec.SetDisableSuggestion(true)
		exec.SetDefaultRulesFn(reticentRules)
	}
	exec.Use(persistedOperations{known: d.persisted, trusted: d.options.Trusted})
	exec.Use(surrogatePairs{})
	exec.Use(documentLimit{validated: d})
	exec.Use(nullVariables{}) // before @skip and @include are evaluated
	exec.Use(strictVariables{d.options.Schema})
	exec.Use(singleRootField{})
}

// InstallRegistration has an executor register the documents that come with their hash. It is
// called last, so that a document is registered only if nothing refuses its operation.
func (d *Documents) InstallRegistration(exec *executor.Executor) {
	if d.options.Trusted == nil {
		exec.Use(registerPersisted{known: d.persisted})
	}
}

// Get implements graphql.Cache.
func (d *Documents) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	p, ok := d.parsed.get(query)
	if !ok {
		return nil, false
	}
	return p.QueryDocument, true
}

// Add implements graphql.Cache.
func (d *Documents) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if size := Bytes(query); size <= maxCachedQuery {
		d.parsed.add(query, &parsedDocument{QueryDocument: document}, size)
	}
}

// Memo returns what make returned for an operation the first time. It is cached with the
// operation's document.
func (d *Documents) Memo(op *graphql.OperationContext, make func(*graphql.OperationContext) any) any {
	p, ok := d.parsed.get(op.RawQuery)
	if !ok || p.QueryDocument != op.Doc { // too large to be cached, or cached again by another request
		return make(op)
	}
	if made, ok := p.memo.Load(op.Operation); ok {
		return made
	}
	made := make(op)
	p.memo.Store(op.Operation, made)
	return made
}

// Cached is how many parsed documents are cached, and their memory.
func (d *Documents) Cached() (documents, bytes int) {
	d.parsed.mu.Lock()
	defer d.parsed.mu.Unlock()
	return d.parsed.entries.Len(), d.parsed.bytes
}

// Bytes is the memory that a document takes at most: its text, which its names are
// parts of, and the nodes of its tokens.
func Bytes(query string) int {
	size := len(query)
	l := lexer.New(&ast.Source{Input: query})
	for size <= maxCachedQuery {
		token, err := l.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			break
		}
		size += BytesPerToken
	}
	return size
}
