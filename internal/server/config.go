package server

import (
	"fmt"
	"os"

	"byline/graph"
	"byline/internal/account"
)

// Config is what serve is configured with. Its fields are flags of kong, with their environment
// variables and defaults.
type Config struct {
	ListenFlags   `embed:""`
	account.Flags `embed:""`
	Demo          bool   `default:"true" env:"BYLINE_DEMO" negatable:"" help:"Fill an empty embedded engine with a small demo blog."`
	AuthIssuer    string `env:"BYLINE_AUTH_ISSUER" placeholder:"URL" help:"OpenID Connect issuer of the bearer tokens. Without one, demo tokens, on loopback only."`
	AuthAudience  string `env:"BYLINE_AUTH_AUDIENCE" placeholder:"NAME" help:"The audience that the tokens must be for."`

	AuthModeratorRole string `env:"BYLINE_AUTH_MODERATOR_ROLE" placeholder:"ROLE" help:"The role of those who may delete what others wrote. Without one, nobody may."`
	AuthRoleClaim     string `default:"roles" env:"BYLINE_AUTH_ROLE_CLAIM" help:"The claim of the tokens with the roles; one inside others, by their names joined by dots."`

	RUPerRequest     int    `name:"ru-per-request" default:"400" env:"BYLINE_RU_PER_REQUEST" help:"Request units that an operation may be predicted to cost."`
	RUPerRequestMode string `name:"ru-per-request-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_REQUEST_MODE" help:"Refuse what is over that (enforce), or only count and log it (measure)."`
	RUPerViewer      int    `name:"ru-per-viewer" placeholder:"N" env:"BYLINE_RU_PER_VIEWER" help:"Request units that a viewer, or an address from which nobody is signed in, may spend in a minute. Without, there is no limit."`
	RUPerViewerMode  string `name:"ru-per-viewer-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_VIEWER_MODE" help:"Refuse what is over that (enforce), or only count and log it (measure)."`

	MetricsListen string `env:"BYLINE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address for /metrics alone. Without one, /metrics is served on --listen if that is on loopback and there is no --behind-proxy, and not at all otherwise."`

	Cache int `default:"64" env:"BYLINE_CACHE" help:"Megabytes of memory for what was read and has not changed since. 0: everything is read anew."`

	TrustedDocuments string `env:"BYLINE_TRUSTED_DOCUMENTS" placeholder:"FILE" help:"Manifest of the only documents to execute. Without one, all that are valid."`
}

const measure = "measure" // the mode of budgets that refuse nothing

// maxCache is a terabyte, in megabytes.
const maxCache = 1 << 20

// trustedDocuments reads the manifest; nil if there is none.
func (c Config) trustedDocuments() (*graph.TrustedDocuments, error) {
	if c.TrustedDocuments == "" {
		return nil, nil
	}
	manifest, err := os.ReadFile(c.TrustedDocuments)
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %w", err)
	}
	trusted, err := graph.ParseTrustedDocuments(manifest, c.demoTokens())
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %s: %w", c.TrustedDocuments, err)
	}
	return trusted, nil
}
