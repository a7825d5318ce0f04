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
	maxCachedBytes = 12 << 20            // of all parsed documents
	maxCachedQuery = maxCachedBytes / 16 // of one document; larger ones are parsed each time
	BytesPerToken  = 400                 // maximum memory of a parsed token, with its part of a plan
)

// Options of Documents. Schema is required.
type Options struct {
	Schema *ast.Schema

	// Trusted, if set, are the only documents that are executed. Default: all valid ones.
	Trusted *Trusted

	// Known are documents that are executed by their id or hash, beside the trusted ones. Default: none.
	Known *Trusted

	// Suggestions has error messages suggest names of the schema.
	Suggestions bool
}

// Documents parses, validates and limits documents, caches parsed documents, and finds persisted and
// trusted documents by their hash or id.
type Documents struct {
	options   Options
	parsed    *byteCache[*parsedDocument] // by text
	persisted *byteCache[string]          // by SHA-256; texts that have passed every check
}

// parsedDocument is a document and the memos of its operations.
type parsedDocument struct {
	*ast.QueryDocument
	memo sync.Map // by *ast.OperationDefinition
}

var _ graphql.Cache[*ast.QueryDocument] = (*Documents)(nil)

// New returns a Documents with empty caches.
func New(o Options) *Documents {
	return &Documents{options: o, parsed: newByteCache[*parsedDocument](maxCachedBytes),
		persisted: newByteCache[string](PersistedBytes)}
}

// Install installs the extensions in an executor, before all others.
func (d *Documents) Install(exec *executor.Executor) {
	exec.SetQueryCache(d)
	exec.SetParserTokenLimit(MaxTokens)
	exec.SetDefaultRulesFn(validationRules)
	if !d.options.Suggestions {
		exec.SetDisableSuggestion(true)
		exec.SetDefaultRulesFn(rulesWithoutSuggestions)
	}
	exec.Use(persistedOperations{registered: d.persisted, known: d.options.Known, trusted: d.options.Trusted})
	exec.Use(documentLimit{validated: d})
	exec.Use(nullVariables{}) // before @skip and @include are evaluated
	exec.Use(strictVariables{d.options.Schema})
	exec.Use(singleRootField{})
}

// InstallRegistration installs the extension that registers documents sent with their hash. It is
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

// Memo returns the result of the first call of make for an operation. It is cached with the
// document.
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

// Cached returns how many parsed documents are cached, and their memory in bytes.
func (d *Documents) Cached() (documents, bytes int) {
	d.parsed.mu.Lock()
	defer d.parsed.mu.Unlock()
	return d.parsed.entries.Len(), d.parsed.bytes
}

// Bytes returns the maximum memory of a parsed document: its text, which contains its names, and the
// nodes of its tokens.
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
