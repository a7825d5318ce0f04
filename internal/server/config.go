package server

import (
	"errors"
	"fmt"
	"os"
	"time"

	"byline/graph"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/limit"
	"byline/internal/account"
)

// Config is the configuration of Run. Its fields are flags of kong with their environment variables and defaults; the
// zero value is not valid.
type Config struct {
	listenFlags
	account.Flags
	account.FilesFlags
	Demo bool `name:"demo" default:"true" negatable:"" env:"BYLINE_DEMO" help:"Fill an empty embedded engine with a small demo blog."`
	authFlags
	siteFlags

	RUPerRequest     int    `name:"ru-per-request" default:"400" env:"BYLINE_RU_PER_REQUEST" help:"Request units that an operation may be predicted to cost."`
	RUPerRequestMode string `name:"ru-per-request-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_REQUEST_MODE" help:"Refuse operations over the limit (enforce), or only count and log them (measure)."`
	RUPerViewer      *int   `name:"ru-per-viewer" env:"BYLINE_RU_PER_VIEWER" placeholder:"N" help:"Request units that a viewer, or an address of anonymous clients, may spend in a minute; 0 for no limit. Default: 6000, and no limit with demo tokens."`
	RUPerViewerMode  string `name:"ru-per-viewer-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_VIEWER_MODE" help:"Refuse operations over the limit (enforce), or only count and log them (measure)."`

	RetryBudget  time.Duration `name:"retry-budget" default:"2s" env:"BYLINE_RETRY_BUDGET" help:"How long an operation may wait for Cosmos DB, all in all, while it is throttled or unavailable, meets other writes, or replicas are behind."`
	BackgroundRU int           `name:"background-ru" default:"1000" env:"BYLINE_BACKGROUND_RU" help:"Request units per second that the jobs of this instance may spend; 0 for no limit."`

	RenameCooldown time.Duration `name:"rename-cooldown" default:"24h" env:"BYLINE_RENAME_COOLDOWN" help:"Period in which a user can change their username three times."`

	ReservedUsernames []string `name:"reserved-usernames" env:"BYLINE_RESERVED_USERNAMES" placeholder:"NAME" help:"More usernames that no user can take, besides admin, moderator, support and the like, separated by commas."`

	MetricsListen string `name:"metrics-listen" env:"BYLINE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address for /metrics only. Without one, /metrics is on --listen if that is on loopback and there is no --behind-proxy, and disabled otherwise."`

	Recency int `name:"recency" default:"100000" env:"BYLINE_RECENCY" help:"Posts in the index of the newest ones, from which home feeds are read; some 45 bytes each."`

	Cache int `name:"cache" default:"64" env:"BYLINE_CACHE" help:"Megabytes of the caches of items, responses and rendered texts; 0 disables them."`

	PlaygroundCDN string `name:"playground-cdn" enum:"on,off" default:"on" env:"BYLINE_PLAYGROUND_CDN" help:"Load GraphiQL for the playground from cdn.jsdelivr.net (on), or use only the embedded playground (off)."`

	TrustedDocuments string `name:"trusted-documents" env:"BYLINE_TRUSTED_DOCUMENTS" placeholder:"FILE" help:"Manifest of the only documents to execute. Without one, every valid document is executed."`
}

// measure is the mode of a budget that refuses nothing.
const measure = "measure"

// ruPerViewer is the default of --ru-per-viewer without demo tokens: six times the predicted cost of a
// continuously active viewer, see heavySession in the tests.
const ruPerViewer = 6000

// maxCache is a terabyte, in megabytes.
const maxCache = 1 << 20

// maxRecency is the largest index of posts: it takes 45 to 65 MB.
const maxRecency = 1_000_000

// recencyBytes is the most that a post takes in the index.
const recencyBytes = 65

// check returns an error that names the invalid flag.
func (c Config) check() error {
	if err := c.Flags.Check(); err != nil {
		return err
	}
	if err := c.CheckFiles(); err != nil {
		return err
	}
	if err := c.checkAddress(); err != nil {
		return err
	}
	if c.RUPerRequest < 1 || c.RUPerViewer != nil && *c.RUPerViewer < 0 {
		return errors.New("--ru-per-request must be at least 1, and --ru-per-viewer at least 0")
	}
	if c.RetryBudget <= 0 {
		return errors.New("--retry-budget must be more than 0")
	}
	if c.BackgroundRU < 0 {
		return errors.New("--background-ru must be at least 0")
	}
	if c.RenameCooldown <= 0 {
		return errors.New("--rename-cooldown must be more than 0")
	}
	if c.Recency < 1 || c.Recency > maxRecency {
		return fmt.Errorf("--recency %d: there can be 1 to %d posts", c.Recency, maxRecency)
	}
	if c.Cache < 0 || c.Cache > maxCache {
		return fmt.Errorf("--cache %d: there can be 0 to %d megabytes", c.Cache, maxCache)
	}
	if err := c.checkMemory(limit.ProcessMemory()); err != nil {
		return err
	}
	if err := c.checkAuth(); err != nil {
		return err
	}
	if err := c.checkDemoTokens(); err != nil {
		return err
	}
	if err := c.checkSite(); err != nil {
		return err
	}
	return c.checkListen()
}

// checkMemory returns an error if the caches and the index may take more than half of the memory of the process, in
// bytes. Responses, bodies, connections and events need the rest.
func (c Config) checkMemory(memory int64) error {
	const megabyte = 1 << 20
	if bytes := int64(c.Cache)*megabyte + int64(c.Recency)*recencyBytes; bytes > memory/2 {
		return fmt.Errorf("--cache %d and --recency %d take %d MB, more than half of the memory, %d MB: lower one of them, "+
			"or set GOMEMLIMIT", c.Cache, c.Recency, bytes/megabyte, memory/megabyte)
	}
	return nil
}

// budgetPerViewer returns the budget of a viewer for a minute.
func (c Config) budgetPerViewer() cost.Budget {
	b := cost.Budget{Measure: c.RUPerViewerMode == measure}
	switch {
	case c.RUPerViewer != nil:
		b.RU = *c.RUPerViewer
	case !c.demoTokens():
		b.RU = ruPerViewer
	}
	return b
}

// responseCache returns the bytes of the response cache, which is half of --cache, with that of pages.
func (c Config) responseCache() int { return c.Cache<<20/2 - c.pageCache() }

// pageCache returns the bytes of the cache of pages, which is an eighth with --site.
func (c Config) pageCache() int {
	if c.Site == "" {
		return 0
	}
	return c.Cache << 20 / 8
}

// htmlCache returns the bytes of the cache of rendered texts, which is an eighth.
func (c Config) htmlCache() int { return c.Cache << 20 / 8 }

// itemCache returns the bytes of the item cache, which is the rest.
func (c Config) itemCache() int { return c.Cache<<20 - c.responseCache() - c.htmlCache() }

// trustedDocuments reads the manifest of trusted documents. It returns nil if no flag names one.
func (c Config) trustedDocuments() (*document.Trusted, error) {
	if c.TrustedDocuments == "" {
		return nil, nil
	}
	manifest, err := os.ReadFile(c.TrustedDocuments)
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %w", err)
	}
	trusted, err := document.ParseTrusted(manifest, graph.Schema(c.demoTokens()))
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %s: %w", c.TrustedDocuments, err)
	}
	return trusted, nil
}
